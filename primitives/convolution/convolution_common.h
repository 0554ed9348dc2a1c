#pragma once
#include "primitives/kernels/convolution/depthwise_convolution.h"
#include "primitives/kernels/convolution/direct_convolution.h"
#include "primitives/kernels/convolution/pointwise_convolution.h"
#include "primitives/layout.h"

/// Everything that conv1d, conv2d, conv3d, convtranspose1d and convtranspose2d share.
namespace wide {

/// Lists always have a number for each axis, as PyTorch refuses a wide bias with a scalar stride.
struct ConvolutionConfig {
  int64_t dims = 2;
  Sizes stride, padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
  Sizes output_padding;  // zeros unless transposed

  std::string text() const {
    return fmt::format("stride={} padding={} dilation={} groups={}", list_text(stride),
                       list_text(padding), list_text(dilation), groups) +
           (transposed ? fmt::format(" output_padding={}", list_text(output_padding)) : "");
  }

  /// Size of the result along spatial axis k.
  int64_t output(size_t k, int64_t in, int64_t taps) const {
    const int64_t reach = dilation[k] * (taps - 1);
    return transposed ? (in - 1) * stride[k] - 2 * padding[k] + reach + output_padding[k] + 1
                      : (in + 2 * padding[k] - reach - 1) / stride[k] + 1;
  }
};

namespace convolution {

/// One of the five layers.
struct Layer {
  std::string name;
  std::vector<std::string> extents;  // its spatial axes: {"H", "W"}
  bool transposed = false;

  int64_t dims() const { return static_cast<int64_t>(extents.size()); }
  Sizes all(int64_t value) const { return Sizes(extents.size(), value); }
};

// ------------------------------------------------------------------------------------ claims

inline Sizes full(Sizes list, int64_t dims) {
  if (list.size() == 1) list.resize(static_cast<size_t>(dims), list[0]);
  return list;
}

/// The padding of "same" or "valid"; nullopt if it differs between the two ends: then the padding
/// and the inner convolution are claimed instead.
inline std::optional<Sizes> named_padding(const std::string& name, const Sizes& weight,
                                          const Sizes& dilation) {
  Sizes padding(dilation.size(), 0);
  if (name == "valid") return padding;
  for (size_t k = 0; k < padding.size(); ++k) {
    const int64_t total = dilation[k] * (weight[k + 2] - 1);
    if (total % 2 != 0) return std::nullopt;
    padding[k] = total / 2;
  }
  return padding;
}

/// Indices of a recorded operator's arguments; the first five are the same for all operators.
struct Places {
  size_t dilation, groups;
  size_t output_padding = 0;  // 0: the operator has none
  size_t transposed = 0;      // 0: the operator's name says it
};

inline std::optional<Claimed> claim(const CallView& call, const Layer& layer,
                                    const Places& places) {
  const int64_t dims = layer.dims();
  const auto rank = static_cast<size_t>(dims + 2);
  if (!call.is_tensor(0) || !call.is_tensor(1) || call.value(0).sizes.size() != rank ||
      call.value(1).sizes.size() != rank)
    return std::nullopt;
  if (places.transposed != 0 && call.flag(places.transposed) != layer.transposed)
    return std::nullopt;
  ConvolutionConfig config;
  config.dims = dims;
  config.transposed = layer.transposed;
  config.stride = full(call.ints(3), dims);
  config.dilation = full(call.ints(places.dilation), dims);
  config.groups = static_cast<int64_t>(call.number(places.groups, 1));
  config.output_padding = layer.all(0);
  if (layer.transposed) config.output_padding = full(call.ints(places.output_padding), dims);
  if (call.constant(4).isString()) {
    const auto padding =
        named_padding(call.constant(4).toStringRef(), call.value(1).sizes, config.dilation);
    if (!padding) return std::nullopt;
    config.padding = *padding;
  } else {
    config.padding = full(call.ints(4), dims);
  }
  return Claimed{config, {call.id(0), call.id(1), call.id(2)}, {}};
}

inline std::vector<Claim> claims(const Layer& layer) {
  const auto at = [layer](Places places) {
    return [layer, places](const CallView& call) { return claim(call, layer, places); };
  };
  const Claim own = layer.transposed
                        ? Claim{fmt::format("aten::conv_transpose{}d", layer.dims()), at({7, 6, 5})}
                        : Claim{fmt::format("aten::conv{}d", layer.dims()), at({5, 6})};
  return {own, {"aten::_convolution", at({5, 8, 7, 6})}, {"aten::convolution", at({5, 8, 7, 6})}};
}

// -------------------------------------------------------------------------------- strategies

/// The same layer with an axis of height 1 in front: oneDNN packs weights of images only.
inline ConvolutionConfig as_image(ConvolutionConfig c) {
  c.dims = 2;
  for (Sizes* ones : {&c.stride, &c.dilation}) ones->insert(ones->begin(), 1);
  for (Sizes* zeros : {&c.padding, &c.output_padding}) zeros->insert(zeros->begin(), 0);
  return c;
}

/// Weights of all models for one grouped convolution, or side by side if all have one input.
inline Tensor joined_weights(const ConvolutionConfig& c, const Tensor& w, bool one_input) {
  if (!c.transposed || !one_input) return w.flatten(0, 1);
  return w.movedim(0, 1).flatten(1, 2);
}

/// The N models as groups of one convolution; `last`: input and weights with channels last.
template <bool last>
Tensors as_groups(const ConvolutionConfig& config, const WideCall& call) {
  const bool line = config.dims == 1;
  const ConvolutionConfig c = line ? as_image(config) : config;
  const Tensor x = line ? call.inputs[0].unsqueeze(-2) : call.inputs[0];
  const Tensor w = line ? call.inputs[1].unsqueeze(-2) : call.inputs[1];
  const auto format = !last         ? at::MemoryFormat::Contiguous
                      : c.dims == 2 ? at::MemoryFormat::ChannelsLast
                                    : at::MemoryFormat::ChannelsLast3d;
  // If all models have one input, their filters form an ordinary convolution.
  const bool one_input = call.shared[0] && c.groups == 1;
  const Tensor packed = one_input ? x.select(0, 0)
                        : last    ? pack_channels_last(x)
                                  : pack_channels(x);
  const Tensor b = call.inputs[2].defined() ? call.inputs[2].reshape({-1}) : Tensor();
  const Tensor y = at::convolution(
      packed.contiguous(format), joined_weights(c, w, one_input).contiguous(format), b, c.stride,
      c.padding, c.dilation, c.transposed, c.output_padding, one_input ? 1 : c.groups * call.n);
  return {unpack_channels(line ? y.squeeze(2) : y, call.n)};
}

/// With channels innermost, oneDNN's grouped convolution in bfloat16 leaks NaN of one group into
/// the next for some numbers of channels (seen with 3, 5 and 17): a diverged model would spoil
/// others.
inline Applies channels_last_applies(const std::string& name, const ConvolutionConfig& c,
                                     const WideCall& call) {
  const Tensor& x = call.inputs[0];
  const bool reduced = x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
  if (reduced && x.is_cpu() && c.groups * call.n > 1)
    return reason(name + "/channels_last", "dtype", c10::toString(x.scalar_type()),
                  "float32 or float64 on the CPU, where groups stay apart", "grouped");
  return std::nullopt;
}

/// Gathers patches by one copy, then calls one batched GEMM: [N*g, B*L, K] x [N*g, K, O].
inline Tensors unfold_gemm(const ConvolutionConfig& c, const WideCall& call) {
  const auto d = static_cast<size_t>(c.dims);
  const Tensor& w = call.inputs[1];
  const int64_t n = call.n, g = c.groups, batch = call.inputs[0].size(1);
  Sizes pads;
  for (size_t k = d; k-- > 0;) pads.insert(pads.end(), {c.padding[k], c.padding[k]});
  Tensor x = call.inputs[0];
  if (std::ranges::any_of(pads, [](int64_t p) { return p != 0; })) x = at::constant_pad_nd(x, pads);
  x = x.reshape(replace_front(x.sizes(), 3, {n, batch, g, x.size(2) / g}));
  // Views every spatial axis as (position, tap).
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

/// Patches are `taps` times the input; beyond this many, the copy alone is too slow.
inline Applies unfold_applies(const std::string& name, const ConvolutionConfig& c,
                              const WideCall& call) {
  const Tensor& w = call.inputs[1];
  const double taps = double(w.numel()) / double(w.size(0) * w.size(1) * w.size(2));
  if (c.groups > 1 && w.size(2) == 1)
    return reason(name + "/unfold", "groups", std::to_string(c.groups),
                  "more than one channel per group", "grouped");
  if (taps > 128)
    return reason(name + "/unfold", "kernel", fmt::format("{} taps", taps), "at most 128 taps",
                  "grouped");
  return std::nullopt;
}

/// The number of filters of one group of one model.
inline int64_t filters_per_group(const ConvolutionConfig& c, const Tensor& w) {
  return c.transposed ? w.size(2) : w.size(1) / c.groups;
}

/// The engine's kernel, which sums directly from each model's images.
inline Tensors direct(const ConvolutionConfig& c, const WideCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1];
  DirectConvolution layer{{}, c.stride, c.padding, c.dilation, {}, c.groups, c.transposed};
  for (size_t k = 0; k < static_cast<size_t>(c.dims); ++k) {
    layer.kernel.push_back(w.size(static_cast<int64_t>(k) + 3));
    layer.output.push_back(c.output(k, x.size(static_cast<int64_t>(k) + 3), layer.kernel.back()));
  }
  return {direct_convolution(x, pack_filters(w, c.groups, c.transposed), if_defined(call.inputs[2]),
                             filters_per_group(c, w) * c.groups, layer)};
}

inline Applies direct_applies(const std::string& name, const ConvolutionConfig& c,
                              const WideCall& call) {
  const int64_t filters = filters_per_group(c, call.inputs[1]);
  if (c.groups > 1 && filters < 4)
    return reason(name + "/direct", "groups", fmt::format("{} filters each", filters),
                  "at least 4 filters per group", "grouped");
  if (c.transposed && c.stride.back() > 4)
    return reason(name + "/direct", "stride", std::to_string(c.stride.back()),
                  "at most 4 in the last axis", "grouped");
  return std::nullopt;
}

/// A convolution of one tap: each model's weights times its images, in place.
inline Tensors pointwise(const ConvolutionConfig& /*c*/, const WideCall& call) {
  return {pointwise_convolution(call.inputs[0], call.inputs[1], if_defined(call.inputs[2]))};
}

inline Applies pointwise_applies(const std::string& name, const ConvolutionConfig& c,
                                 const WideCall& call) {
  const Tensor& w = call.inputs[1];
  const auto all = [](const Sizes& list, int64_t value) {
    return std::ranges::all_of(list, [&](int64_t v) { return v == value; });
  };
  const int64_t taps = w.numel() / (w.size(0) * w.size(1) * w.size(2));
  if (taps != 1 || !all(c.stride, 1) || !all(c.padding, 0) || c.groups != 1)
    return reason(name + "/pointwise", "layer", fmt::format("{} taps, {}", taps, c.text()),
                  "one tap, stride and groups 1, no padding", "direct");
  return std::nullopt;
}

/// A depthwise convolution: each channel has its own filters.
inline Tensors depthwise(const ConvolutionConfig& c, const WideCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1];
  DepthwiseConvolution layer{c.stride, c.padding, c.dilation, {}};
  for (size_t k = 0; k < static_cast<size_t>(c.dims); ++k) {
    const auto axis = static_cast<int64_t>(k) + 3;
    layer.output.push_back(c.output(k, x.size(axis), w.size(axis)));
  }
  return {depthwise_convolution(x, w, if_defined(call.inputs[2]), layer)};
}

inline Applies depthwise_applies(const std::string& name, const ConvolutionConfig& /*c*/,
                                 const WideCall& call) {
  const Tensor& w = call.inputs[1];
  if (w.size(2) != 1)
    return reason(name + "/depthwise", "groups", fmt::format("{} channels each", w.size(2)),
                  "one channel per group", "direct");
  return std::nullopt;
}

inline std::vector<Strategy> strategies(const Layer& layer) {
  using Config = ConvolutionConfig;
  const auto named =
      [&layer](Applies (*applies)(const std::string&, const Config&, const WideCall&)) {
        return [applies, name = layer.name](const Config& c, const WideCall& call) {
          return applies(name, c, call);
        };
      };
  std::vector<Strategy> all{
      strategy<Config>("direct", "summed straight from every model's images, inference", direct,
                       named(direct_applies), {"wide::direct_convolution"}),
      strategy<Config>("grouped", "the models as groups of one convolution", as_groups<false>),
      strategy<Config>("channels_last", "grouped, channels innermost in memory", as_groups<true>,
                       named(channels_last_applies))};
  if (!layer.transposed) {
    all.push_back(strategy<Config>("unfold", "patches gathered once, then one batched GEMM",
                                   unfold_gemm, named(unfold_applies)));
    all.push_back(strategy<Config>("pointwise", "one tap: weights times images, without copies",
                                   pointwise, named(pointwise_applies),
                                   {"wide::pointwise_convolution"}));
  }
  if (!layer.transposed && layer.dims() < 3)
    all.push_back(strategy<Config>("depthwise", "each channel with its own filters, inference",
                                   depthwise, named(depthwise_applies),
                                   {"wide::depthwise_convolution"}));
  return all;
}

// ------------------------------------------------------------------------------ single model

constexpr const char* kPaddingModes[] = {"constant", "reflect", "replicate", "circular"};

/// The layer that a shape describes.
struct Options {
  ConvolutionConfig config;
  int64_t channels, out, taps;
  bool same, biases;
  int64_t mode;  // index into kPaddingModes
  Sizes pads;    // for at::pad, if the mode is not zeros
};

inline Options options(const Layer& layer, const Shape& shape) {
  Options o;
  at_least_where_given(layer.name.c_str(), shape, {"groups", "stride", "dilation", "O"}, 1);
  at_least_where_given(layer.name.c_str(), shape, {"padding"}, 0);
  o.channels = shape["C"];
  o.out = shape.get("O", o.channels);
  o.taps = shape["k"];
  o.same = shape.get("same", 0) != 0;
  o.biases = shape.get("biases", 1) != 0;
  o.mode = shape.get("padding_mode", 0);
  const int64_t groups = shape.get("groups", 1), stride = shape.get("stride", 1),
                dilation = shape.get("dilation", 1), reach = dilation * (o.taps - 1),
                padding = shape.get("padding", reach / 2),
                output_padding = shape.get("output_padding", 0);
  if (o.channels % groups != 0 || o.out % groups != 0)
    fail("[{}] groups: got {}, expected a divisor of C={} and O={}; try groups=1", layer.name,
         groups, o.channels, o.out);
  if (o.mode < 0 || o.mode > 3 || (layer.transposed && o.mode != 0))
    fail("[{}] padding_mode: got {}, expected {}; try padding_mode=0", layer.name, o.mode,
         layer.transposed ? "0 (zeros)" : "0 (zeros), 1 (reflect), 2 (replicate) or 3 (circular)");
  if (o.same && (stride > 1 || layer.transposed))
    fail("[{}] same: got stride={}, expected an ordinary convolution of stride 1; try same=0",
         layer.name, stride);
  if (output_padding < 0 || (output_padding > 0 && !layer.transposed) ||
      output_padding >= std::max(stride, dilation))
    fail("[{}] output_padding: got {}, expected {}; try output_padding=0", layer.name,
         output_padding,
         layer.transposed ? fmt::format("less than stride={} or dilation={}", stride, dilation)
                          : "0, since nothing is transposed");
  o.config = {layer.dims(), layer.all(stride), layer.all(padding),       layer.all(dilation),
              groups,       layer.transposed,  layer.all(output_padding)};
  const int64_t before = o.same ? reach / 2 : padding, after = o.same ? reach - before : padding;
  for (const auto& extent : layer.extents) {
    const int64_t in = shape[extent];
    // reflect needs one input more than it pads, circular as many.
    const int64_t least = o.mode == 1 ? after + 1 : o.mode == 3 ? after : 1;
    if (in < least)
      fail("[{}] {}: got {}, expected at least {} for {} padding; try padding_mode=0", layer.name,
           extent, in, least, kPaddingModes[o.mode]);
    if (!layer.transposed && in + before + after < reach + 1)
      fail("[{}] {}: got {}, expected at least {}; try a smaller k", layer.name, extent, in,
           reach + 1 - before - after);
    if (layer.transposed && o.config.output(0, in, o.taps) < 1)
      fail("[{}] {}: got {}, which leaves nothing, expected more; try a smaller padding",
           layer.name, extent, in);
    o.pads.insert(o.pads.end(), {before, after});
  }
  return o;
}

/// Calls the operator that torch.nn's layer calls.
inline Tensor forward(const Options& o, Tensor x, const Tensor& w, const Tensor& b) {
  const ConvolutionConfig& c = o.config;
  if (c.transposed)
    return c.dims == 1 ? at::conv_transpose1d(x, w, b, c.stride, c.padding, c.output_padding,
                                              c.groups, c.dilation)
                       : at::conv_transpose2d(x, w, b, c.stride, c.padding, c.output_padding,
                                              c.groups, c.dilation);
  const auto call = [&](auto padding) {
    if (c.dims == 1) return at::conv1d(x, w, b, c.stride, padding, c.dilation, c.groups);
    if (c.dims == 2) return at::conv2d(x, w, b, c.stride, padding, c.dilation, c.groups);
    return at::conv3d(x, w, b, c.stride, padding, c.dilation, c.groups);
  };
  if (o.mode != 0) {
    x = at::pad(x, o.pads, kPaddingModes[o.mode]);
    const Sizes none(c.padding.size(), 0);
    return call(at::IntArrayRef(none));
  }
  if (o.same) return call(c10::string_view("same"));
  return call(at::IntArrayRef(c.padding));
}

inline Network network(const Layer& layer, const Shape& shape) {
  const Options o = options(layer, shape);
  Sizes x{shape["B"], o.channels}, w{o.out, o.channels / o.config.groups};
  if (layer.transposed) w = {o.channels, o.out / o.config.groups};
  double fan = double(o.channels / o.config.groups);
  for (const auto& extent : layer.extents) {
    x.push_back(shape[extent]);
    w.push_back(o.taps);
    fan *= double(o.taps) / double(layer.transposed ? o.config.stride[0] : 1);
  }
  Network net;
  net.name = layer.name;
  net.tensors = {input("x", x), parameter("weight", w, 1.0 / std::sqrt(fan))};
  if (o.biases) net.tensors.push_back(parameter("bias", {o.out}));
  net.forward = [o](const Tensors& t) {
    return Tensors{forward(o, t[0], t[1], o.biases ? t[2] : Tensor())};
  };
  return net;
}

inline double flops(const Layer& layer, const Shape& shape) {
  const Options o = options(layer, shape);
  double products = 2.0 * double(shape["B"] * o.out) * double(o.channels / o.config.groups);
  for (size_t k = 0; k < layer.extents.size(); ++k) {
    const int64_t in = shape[layer.extents[k]];
    products *=
        double(o.taps) * double(layer.transposed || o.same ? in : o.config.output(k, in, o.taps));
  }
  return products;
}

// ------------------------------------------------------------------------------ registration

inline std::vector<Axis> axes(const Layer& layer) {
  std::vector<Axis> axes{{"B", "samples"}, {"C", "channels"}, {"k", "taps along every axis"}};
  for (const auto& extent : layer.extents) axes.push_back({extent, "extent of the image"});
  axes.insert(axes.end(), {{"O", "filters", {}, "C"},
                           {"padding", "along every axis", {}, "dilation (k-1)/2"},
                           {"groups", "groups of channels", 1},
                           {"stride", "along every axis", 1},
                           {"dilation", "along every axis", 1},
                           {"biases", "0: none", 1}});
  if (layer.transposed) {
    axes.push_back({"output_padding", "less than stride or dilation", 0});
  } else {
    axes.push_back({"same", "1: padding \"same\"", 0});
    axes.push_back({"padding_mode", "0 zeros, 1 reflect, 2 replicate, 3 circular", 0});
  }
  return axes;
}

/// Python code that makes the layer of torch.nn.
inline std::string oracle(const Layer& layer) {
  const char* const transposed = "output_padding=a.output_padding";
  const char* const ordinary =
      "padding_mode=['zeros', 'reflect', 'replicate', 'circular'][a.padding_mode]";
  return fmt::format(R"(
padding = a.dilation * (a.k - 1) // 2 if a.padding is None else a.padding
layer = load(nn.Conv{}{}d(
    a.C, a.O or a.C, a.k, a.stride, {}, dilation=a.dilation, groups=a.groups, bias=bool(a.biases),
    {}))
y = layer(t['x'])
)",
                     layer.transposed ? "Transpose" : "", layer.dims(),
                     layer.transposed ? "padding" : "'same' if a.same else padding",
                     layer.transposed ? transposed : ordinary);
}

/// A convolution's target, without sweeps, refusals and tolerance.
inline Target target(const Layer& layer) {
  const int64_t dims = layer.dims();
  std::string space, taps;
  for (const auto& extent : layer.extents) space += extent, taps += "k";
  Target t;
  t.name = layer.name;
  t.axes = axes(layer);
  t.oracle = oracle(layer);
  t.family = "convolution";
  t.summary = fmt::format("{}-D {}convolution, any stride, padding, dilation and groups", dims,
                          layer.transposed ? "transposed " : "");
  t.formula = layer.transposed
                  ? fmt::format("y = wᵀ * x + b,  NBC{0}, NCO{1} -> NBO{0}'", space, taps)
                  : fmt::format("y = w * x + b,  NBC{0}, NOC{1} -> NBO{0}'", space, taps);
  t.source = fmt::format("torch.nn.Conv{}{}d", layer.transposed ? "Transpose" : "", dims);
  t.network = [layer](const Shape& s) { return network(layer, s); };
  t.flops = [layer](const Shape& s) { return flops(layer, s); };
  t.claims = claims(layer);
  t.strategies = strategies(layer);
  t.parameter_inputs = {false, true, true};
  return t;
}

}  // namespace convolution
}  // namespace wide
