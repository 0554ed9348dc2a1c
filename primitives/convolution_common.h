#pragma once
#include "primitives/layout.h"

namespace wide {

/// What conv1d, conv2d and conv3d share: claims, strategies and the single model, for `dims`
/// spatial dimensions. Lists are always full-length: a wide bias with a scalar stride throws.
struct ConvolutionConfig {
  int64_t dims = 2;
  Sizes stride, padding, dilation;
  int64_t groups = 1;

  std::string text() const {
    return fmt::format("stride={} padding={} dilation={} groups={}", list_text(stride),
                       list_text(padding), list_text(dilation), groups);
  }
};

namespace convolution {

inline Sizes full(Sizes list, int64_t dims) {
  if (list.size() == 1) list.resize(static_cast<size_t>(dims), list[0]);
  return list;
}

/// Arguments of conv1d/2d/3d, `_convolution` and `convolution` alike; transposed ones are not ours.
inline std::optional<Claimed> claim(const CallView& call, int64_t dims, bool general) {
  const auto rank = static_cast<size_t>(dims + 2);
  if (!call.is_tensor(0) || !call.is_tensor(1) || call.value(0).sizes.size() != rank ||
      call.value(1).sizes.size() != rank)
    return std::nullopt;
  if (call.constant(4).isString()) return std::nullopt;  // "same": its nodes are claimed instead
  if (general && call.flag(6)) return std::nullopt;
  ConvolutionConfig config;
  config.dims = dims;
  config.stride = full(call.ints(3), dims);
  config.padding = full(call.ints(4), dims);
  config.dilation = full(call.ints(5), dims);
  config.groups = static_cast<int64_t>(call.number(general ? 8 : 6, 1));
  return Claimed{config, {call.id(0), call.id(1), call.id(2)}, {}};
}

inline std::vector<Claim> claims(int64_t dims) {
  const auto plain = [dims](const CallView& c) { return claim(c, dims, false); };
  const auto general = [dims](const CallView& c) { return claim(c, dims, true); };
  return {{fmt::format("aten::conv{}d", dims), plain},
          {"aten::_convolution", general},
          {"aten::convolution", general}};
}

inline Tensor call_convolution(const ConvolutionConfig& c, const Tensor& x, const Tensor& w,
                               const Tensor& b, int64_t groups) {
  return at::convolution(x, w, b, c.stride, c.padding, c.dilation, false,
                         Sizes(static_cast<size_t>(c.dims), 0), groups);
}

/// The N models as groups of one convolution, `format` for input and weights.
inline Tensors as_groups(const ConvolutionConfig& c, const WideCall& call,
                         at::MemoryFormat format) {
  Tensor w = call.inputs[1].flatten(0, 1).contiguous(format);
  const Tensor b = call.inputs[2].defined() ? call.inputs[2].reshape({-1}) : Tensor();
  // One input for all models: their filters side by side in an ordinary convolution.
  const bool shared = call.shared[0] && c.groups == 1;
  const Tensor x = shared                                   ? call.inputs[0].select(0, 0)
                   : format == at::MemoryFormat::Contiguous ? pack_channels(call.inputs[0])
                                                            : pack_channels_last(call.inputs[0]);
  const Tensor y = call_convolution(c, x.contiguous(format), w, b, shared ? 1 : c.groups * call.n);
  return {unpack_channels(y, call.n)};
}

inline Tensors grouped(const ConvolutionConfig& c, const WideCall& call) {
  return as_groups(c, call, at::MemoryFormat::Contiguous);
}

inline Tensors channels_last(const ConvolutionConfig& c, const WideCall& call) {
  return as_groups(c, call,
                   c.dims == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d);
}

/// Patches gathered by one copy, then one batched GEMM: [N*g, B*L, K] x [N*g, K, O].
inline Tensors unfold_gemm(const ConvolutionConfig& c, const WideCall& call) {
  const auto d = static_cast<size_t>(c.dims);
  const Tensor& w = call.inputs[1];
  const int64_t n = call.n, g = c.groups, batch = call.inputs[0].size(1);
  Sizes pads;
  for (size_t k = d; k-- > 0;) pads.insert(pads.end(), {c.padding[k], c.padding[k]});
  Tensor x = call.inputs[0];
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; }))
    x = at::constant_pad_nd(x, pads);
  x = x.reshape(replace_front(x.sizes(), 3, {n, batch, g, x.size(2) / g}));
  // Every spatial axis becomes (position, tap); views only.
  Sizes space;
  for (size_t k = 0; k < d; ++k) {
    const int64_t taps = w.size(static_cast<int64_t>(k) + 3);
    const auto axis = static_cast<int64_t>(4 + k);
    x = x.unfold(axis, c.dilation[k] * (taps - 1) + 1, c.stride[k]);
    if (c.dilation[k] > 1) x = x.slice(-1, 0, std::nullopt, c.dilation[k]);
    space.push_back(x.size(axis));
  }
  Sizes order{0, 2, 1};  // n, g, b, positions, channels, taps
  for (size_t k = 0; k < d; ++k) order.push_back(static_cast<int64_t>(4 + k));
  order.push_back(3);
  for (size_t k = 0; k < d; ++k) order.push_back(static_cast<int64_t>(4 + d + k));
  const int64_t out = w.size(1) / g, depth = w.numel() / (n * w.size(1));
  const Tensor patches = x.permute(order).reshape({n * g, -1, depth});
  const Tensor filters = w.reshape({n * g, out, depth}).transpose(1, 2).contiguous();
  Tensor y = at::bmm(patches, filters);
  if (call.inputs[2].defined()) y = y + call.inputs[2].reshape({n * g, 1, out});
  Sizes sizes{n, g, batch};
  sizes.insert(sizes.end(), space.begin(), space.end());
  sizes.push_back(out);
  Sizes back{0, 2, 1, static_cast<int64_t>(3 + d)};  // n, b, g, out, positions
  for (size_t k = 0; k < d; ++k) back.push_back(static_cast<int64_t>(3 + k));
  y = y.view(sizes).permute(back);
  return {g == 1 ? y.squeeze(2) : y.flatten(2, 3)};
}

/// Patches are `taps` times the input; beyond this many of them the copy alone loses.
inline Applies unfold_applies(const char* name, const ConvolutionConfig& c, const WideCall& call) {
  const double taps =
      double(call.inputs[1].numel()) /
      double(call.inputs[1].size(0) * call.inputs[1].size(1) * call.inputs[1].size(2));
  if (c.groups > 1 && call.inputs[1].size(2) == 1)
    return reason(fmt::format("{}/unfold", name), "groups", std::to_string(c.groups),
                  "more than one channel per group", "grouped");
  if (taps > 128)
    return reason(fmt::format("{}/unfold", name), "kernel", fmt::format("{} taps", taps),
                  "at most 128 taps", "grouped");
  return std::nullopt;
}

/// One convolution layer of `dims` spatial axes, each of the size of axis `extent`.
inline Network network(const std::string& name, const Shape& shape, int64_t dims,
                       const std::vector<std::string>& extents) {
  at_least(name.c_str(), shape, "B", 1);
  at_least(name.c_str(), shape, "C", 1);
  at_least(name.c_str(), shape, "k", 1);
  const int64_t c = shape["C"], out = shape.get("O", c), k = shape["k"];
  const int64_t groups = shape.get("groups", 1), dilation = shape.get("dilation", 1);
  const int64_t padding = shape.get("padding", dilation * (k - 1) / 2);
  if (groups < 1 || c % groups != 0 || out % groups != 0)
    fail("[{}] groups: got {}, expected a divisor of C={} and O={}; try groups=1", name, groups, c,
         out);
  Sizes x{shape["B"], c}, w{out, c / groups};
  for (const auto& extent : extents) {
    if (shape[extent] + 2 * padding < dilation * (k - 1) + 1)
      fail("[{}] {}: got {}, expected at least {}; try a smaller k", name, extent, shape[extent],
           dilation * (k - 1) + 1 - 2 * padding);
    x.push_back(shape[extent]);
    w.push_back(k);
  }
  const auto all = [dims](int64_t value) { return Sizes(static_cast<size_t>(dims), value); };
  ConvolutionConfig config{dims, all(shape.get("stride", 1)), all(padding), all(dilation), groups};
  Network net;
  net.name = name;
  const double fan = double(c / groups) * std::pow(double(k), double(dims));
  net.tensors = {input("x", x), parameter("weight", w, 1.0 / std::sqrt(fan)),
                 parameter("bias", {out})};
  net.forward = [config](const Tensors& t) {
    return Tensors{call_convolution(config, t[0], t[1], t[2], config.groups)};
  };
  return as_function(net);
}

inline double flops(const Shape& s, const std::vector<std::string>& extents) {
  double positions = double(s["B"]), taps = 1;
  for (const auto& extent : extents) {
    positions *= double((s[extent] - 1) / s.get("stride", 1) + 1);
    taps *= double(s["k"]);
  }
  return 2.0 * positions * double(s.get("O", s["C"])) * double(s["C"] / s.get("groups", 1)) * taps;
}

}  // namespace convolution
}  // namespace wide
