#pragma once
// The batch norms: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel
//   eval: mean and var are the running statistics; train: those of the batch, and
//   running = (1 - momentum) running + momentum * batch (variance unbiased)
// They differ in the number of image axes; each claims inputs of its rank.
#include "primitives/kernels/norm/norms.h"
#include "primitives/layout.h"

namespace wide::batchnorm {

struct Config {
  bool training = false;
  double momentum = 0.1, eps = 1e-5;
  std::string text() const {
    return fmt::format("mode={} momentum={} eps={}", training ? "train" : "eval", momentum, eps);
  }
};

// ------------------------------------------------------------------------------ single model

/// `space`: axes behind B and C; if there is one only, it may be absent.
inline Network network(const std::string& name, const std::vector<const char*>& space,
                       const Shape& shape) {
  Sizes sizes{shape["B"], shape["C"]};
  for (const char* axis : space) {
    if (!shape.has(axis) && space.size() == 1) continue;  // [B, C]
    at_least(name.c_str(), shape, axis, 1);
    sizes.push_back(shape[axis]);
  }
  at_least_where_given(name.c_str(), shape, {"batches"}, 1);
  const bool train = shape.get("train", 0) != 0, track = shape.get("track", 1) != 0;
  const bool affine = shape.get("affine", 1) != 0, from_batch = train || !track;
  const int64_t c = shape["C"], values = c10::multiply_integers(sizes) / c;
  if (from_batch && values < 2)
    fail("[{}] B: got one value per channel, expected more in training; try B=2", name);
  const double momentum = shape.has("batches") ? 1.0 / double(shape["batches"]) : 0.1;
  Network net;
  net.name = name;
  net.training = train && track;
  net.tensors = {input("x", sizes)};
  if (affine) {
    net.tensors.push_back(parameter("weight", {c}, 1.0, Fill::near_one));
    net.tensors.push_back(parameter("bias", {c}));
  }
  if (track) {
    net.tensors.push_back(buffer("running_mean", {c}, Fill::normal));
    net.tensors.push_back(buffer("running_var", {c}, Fill::positive));
  }
  net.forward = [=](const Tensors& t) {
    size_t at = 1;
    const auto next = [&](bool present) { return present ? t[at++] : Tensor(); };
    const Tensor weight = next(affine), bias = next(affine), mean = next(track), var = next(track);
    return Tensors{at::batch_norm(t[0], weight, bias, mean, var, from_batch, momentum, 1e-5, true)};
  };
  return net;
}

// ------------------------------------------------------------------------------------ claims

/// Arguments 0..4 are x, weight, bias, running mean and variance.
inline std::optional<Claimed> claimed(const CallView& call, Config config,
                                      std::vector<int> results) {
  if (!config.training && (!call.is_tensor(3) || !call.is_tensor(4))) return std::nullopt;
  return Claimed{
      config, {call.id(0), call.id(1), call.id(2), call.id(3), call.id(4)}, std::move(results)};
}

inline std::optional<Claimed> claim_region(const CallView& call) {  // batch_norm
  const bool training = call.flag(5);
  // Training changes the running statistics: then the inner nodes are claimed instead.
  if (training && (call.is_tensor(3) || call.is_tensor(4))) return std::nullopt;
  return claimed(call, {training, call.number(6, 0.1), call.number(7, 1e-5)}, {0});
}

inline std::optional<Claimed> claim_functional(const CallView& call) {
  if (!call.is_tensor(3) || !call.is_tensor(4)) return std::nullopt;
  const bool training = call.flag(5);
  const auto results =
      training ? std::vector<int>{0, 1, 2, 3, 4} : std::vector<int>{0, -1, -1, -1, -1};
  return claimed(call, {training, call.number(6, 0.1), call.number(7, 1e-5)}, results);
}

/// `_native_batch_norm_legit.no_stats`: training without running statistics.
inline std::optional<Claimed> claim_no_stats(const CallView& call) {
  if (call.size() != 6 || !call.flag(3)) return std::nullopt;
  return Claimed{Config{true, call.number(4, 0.1), call.number(5, 1e-5)},
                 {call.id(0), call.id(1), call.id(2), kNone, kNone},
                 {0, 1, 2}};
}

inline std::optional<Claimed> claim_native(const CallView& call) {  // native_batch_norm
  const bool training = call.flag(5);
  if (training && (call.is_tensor(3) || call.is_tensor(4))) return std::nullopt;
  return claimed(call, {training, call.number(6, 0.1), call.number(7, 1e-5)},
                 training ? std::vector<int>{0, 1, 2} : std::vector<int>{0, -1, -1});
}

inline std::optional<Claimed> claim_no_training(const CallView& call) {
  return claimed(call, {false, call.number(5, 0.1), call.number(6, 1e-5)}, {0, -1, -1});
}

/// Claims for inputs of these ranks, without the axis of models.
inline std::vector<Claim> claims(const std::vector<size_t>& ranks) {
  using Match = std::optional<Claimed> (*)(const CallView&);
  const std::vector<std::pair<const char*, Match>> all{
      {"aten::batch_norm", claim_region},
      {"aten::_native_batch_norm_legit_functional", claim_functional},
      {"aten::_native_batch_norm_legit", claim_no_stats},
      {"aten::_native_batch_norm_legit_no_training", claim_no_training},
      {"aten::native_batch_norm", claim_native}};
  std::vector<Claim> out;
  for (const auto& [op, match] : all)
    out.push_back({op, [ranks, match = match](const CallView& call) -> std::optional<Claimed> {
                     if (!call.is_tensor(0)) return std::nullopt;
                     const size_t rank = call.value(0).sizes.size();
                     if (std::ranges::find(ranks, rank) == ranks.end()) return std::nullopt;
                     return match(call);
                   }});
  return out;
}

// -------------------------------------------------------------------------------- strategies

/// Scale and shift to which batch norm reduces in eval mode; they depend on parameters only.
inline std::pair<Tensor, Tensor> scale_and_shift(const Config& c, const Tensors& in) {
  Tensor scale = at::rsqrt(in[4] + c.eps);
  if (in[1].defined()) scale = scale * in[1];
  Tensor shift = -(in[3] * scale);
  if (in[2].defined()) shift = shift + in[2];
  return {scale, shift};
}

inline Tensor flat(const Tensor& t) { return t.defined() ? t.reshape({-1}) : t; }

/// Training: with models folded into channels, statistics per channel are statistics per model.
inline Tensors train(const Config& c, const WideCall& call) {
  const Tensors& in = call.inputs;
  const auto wide = [&](const Tensor& t) { return t.view({call.n, -1}); };
  const bool two = in[0].dim() == 3;  // [N, B, C]
  Tensor packed = pack_channels(two ? in[0].unsqueeze(-1) : in[0]);
  const Sizes sizes = packed.sizes().vec();
  // For one image with channels last, LibTorch's gradient is wrong for some batch strides, be they
  // the input's or the result's gradient's; a row of numbers for each channel has no such layout.
  if (sizes[0] == 1) packed = packed.flatten(2);
  const auto image = [&](const Tensor& y) {
    const Tensor unpacked = unpack_channels(y.view(sizes), call.n);
    return two ? unpacked.squeeze(-1) : unpacked;
  };
  if (!in[3].defined()) {
    const auto [y, mean, invstd] =
        at::_native_batch_norm_legit(packed, flat(in[1]), flat(in[2]), true, c.momentum, c.eps);
    return {image(y), wide(mean), wide(invstd)};
  }
  // The functional operator has no gradient. This one has, and changes only these copies.
  Tensor running_mean = flat(in[3]).clone(), running_var = flat(in[4]).clone();
  const auto [y, mean, invstd] = at::_native_batch_norm_legit(
      packed, flat(in[1]), flat(in[2]), running_mean, running_var, true, c.momentum, c.eps);
  return {image(y), wide(mean), wide(invstd), wide(running_mean), wide(running_var)};
}

inline Tensors wide_norm(const Config& c, const WideCall& call) {
  if (c.training) return train(c, call);
  const auto [scale, shift] = scale_and_shift(c, call.inputs);
  const Tensor& x = call.inputs[0];
  return {at::addcmul(per_channel(shift, x.dim()), x, per_channel(scale, x.dim()))};
}

/// The engine's own kernels: training rereads a channel while it is in cache; eval makes one pass.
inline Tensors one_pass(const Config& c, const WideCall& call) {
  const Tensors& in = call.inputs;
  const Tensor x = norms::for_batch_norm(in[0]);
  if (!c.training) {
    const auto [scale, shift] = scale_and_shift(c, in);
    return {norms::scale_shift(x, scale, shift)};
  }
  Tensors made = norms::batch_norm(x, in[1], in[2], in[3], in[4], c.momentum, c.eps);
  if (!in[3].defined()) made.resize(3);
  return made;
}

// ------------------------------------------------------------------------------ registration

/// Folds an eval-mode batch norm into the weights `[N, O, ...]` of the convolution before it.
inline std::optional<Tensors> into_convolution(const std::any&, const WideCall& convolution,
                                               const std::any& norm_config, const WideCall& norm) {
  const auto& c = std::any_cast<const Config&>(norm_config);
  if (c.training) return std::nullopt;
  const auto [scale, shift] = scale_and_shift(c, norm.inputs);
  const Tensor &w = convolution.inputs[1], &b = convolution.inputs[2];
  Sizes per_filter(static_cast<size_t>(w.dim()), 1);
  per_filter[0] = w.size(0);
  per_filter[1] = w.size(1);
  return Tensors{convolution.inputs[0], w * scale.reshape(per_filter),
                 b.defined() ? at::addcmul(shift, b, scale) : shift};
}

/// `shapes`, each with and without training.
inline std::vector<Shape> both_modes(const std::vector<Shape>& shapes) {
  std::vector<Shape> out;
  for (const Shape& shape : shapes) {
    out.push_back(shape);
    out.push_back(Shape(shape).set("train", 1));
  }
  return out;
}

/// The target without sweeps, refusals and formula, which each of the three sets itself.
inline Target target(const std::string& name, const std::vector<const char*>& space,
                     const std::vector<size_t>& ranks) {
  Target t;
  t.name = name;
  t.family = "normalization";
  t.summary = "Batch normalisation, every model with its own statistics";
  t.network = [=](const Shape& shape) { return network(name, space, shape); };
  t.axes = axes({"B", "C"});
  for (const char* axis : space)
    t.axes.push_back(
        {axis, "extent of the image", {}, space.size() == 1 ? "none: x is [B, C]" : ""});
  t.axes.insert(t.axes.end(),
                {{"train", "1: with the statistics of the batch", 0},
                 {"affine", "0: no weights", 1},
                 {"track", "0: no running statistics", 1},
                 {"batches", "at this batch of a cumulative average", {}, "none: momentum 0.1"}});
  t.oracle = fmt::format(R"(
norm = load(nn.BatchNorm{}d(a.C, affine=bool(a.affine), track_running_stats=bool(a.track),
                           momentum=None if a.batches else 0.1)).train(bool(a.train))
if a.batches:
    norm.num_batches_tracked.fill_(a.batches - 1)
y = [norm(t['x'])]
if a.train and a.track:
    y += [norm.running_mean, norm.running_var]
)",
                         space.size());
  t.flops = [space](const Shape& s) {
    double values = double(s["B"]) * double(s["C"]);
    for (const char* axis : space) values *= double(s.get(axis, 1));
    return (s.get("train", 0) ? 7.0 : 2.0) * values;
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason =
      "x*scale + shift cancels where x is near the mean; variances sum all values of a channel";
  t.claims = claims(ranks);
  t.strategies = {
      strategy<Config>("one_pass",
                       "one pass over memory: statistics and own affine part while a channel is in "
                       "cache, inference",
                       one_pass, {}, {"wide::batch_norm", "wide::scale_shift"}),
      strategy<Config>("wide", "eval: one multiply-add; train: the models as channels of one norm",
                       wide_norm)};
  t.parameter_inputs = {false, true, true, true, true};
  return t;
}

}  // namespace wide::batchnorm
