// batchnorm2d: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel
//   eval: mean and var are the running statistics; train: those of the batch (over B, H, W), and
//   running = (1 - momentum) running + momentum * batch (variance unbiased)
// shapes: x [N,B,C,H,W], weight bias running_mean running_var [N,C] -> y [N,B,C,H,W]
// source: torch.nn.BatchNorm2d. Claims inputs of any rank, so that 1-D and 3-D forms profit too.
#include "primitives/layout.h"

namespace wide {
namespace {

struct BatchNormConfig {
  bool training = false;
  bool functional = false;  // results: out, save_mean, save_invstd, running_mean, running_var
  double momentum = 0.1, eps = 1e-5;
  std::string text() const {
    return fmt::format("mode={} momentum={} eps={}", training ? "train" : "eval", momentum, eps);
  }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  for (const char* axis : {"B", "C", "H", "W"}) at_least("batchnorm2d", shape, axis, 1);
  const bool training = shape.get("train", 0) != 0;
  const int64_t c = shape["C"];
  if (training && shape["B"] * shape["H"] * shape["W"] < 2)
    fail("[batchnorm2d] B: got one value per channel, expected more in training; try B=2");
  Network net;
  net.name = "batchnorm2d";
  net.training = training;
  net.tensors = {input("x", {shape["B"], c, shape["H"], shape["W"]}),
                 parameter("weight", {c}, 1.0, Fill::near_one), parameter("bias", {c}),
                 buffer("running_mean", {c}, Fill::normal),
                 buffer("running_var", {c}, Fill::positive)};
  net.forward = [training](const Tensors& t) {
    return Tensors{at::batch_norm(t[0], t[1], t[2], t[3], t[4], training, 0.1, 1e-5, true)};
  };
  return as_function(net);
}

// ------------------------------------------------------------------------------------ claims

/// Arguments 0..4 are x, weight, bias, running mean and variance.
std::optional<Claimed> claimed(const CallView& call, BatchNormConfig config,
                               std::vector<int> results) {
  if (!call.is_tensor(0) || call.value(0).sizes.size() < 2) return std::nullopt;
  if (!config.training && (!call.is_tensor(3) || !call.is_tensor(4))) return std::nullopt;
  return Claimed{
      config, {call.id(0), call.id(1), call.id(2), call.id(3), call.id(4)}, std::move(results)};
}

std::optional<Claimed> claim_region(const CallView& call) {  // batch_norm
  const bool training = call.flag(5);
  // In training the running statistics change: then the nodes inside are claimed instead.
  if (training && (call.is_tensor(3) || call.is_tensor(4))) return std::nullopt;
  return claimed(call, {training, false, call.number(6, 0.1), call.number(7, 1e-5)}, {0});
}

std::optional<Claimed> claim_functional(const CallView& call) {
  if (!call.is_tensor(3) || !call.is_tensor(4)) return std::nullopt;
  const bool training = call.flag(5);
  const auto results =
      training ? std::vector<int>{0, 1, 2, 3, 4} : std::vector<int>{0, -1, -1, -1, -1};
  return claimed(call, {training, true, call.number(6, 0.1), call.number(7, 1e-5)}, results);
}

std::optional<Claimed> claim_eval(const CallView& call) {  // native_batch_norm
  if (call.flag(5)) return std::nullopt;
  return claimed(call, {false, false, call.number(6, 0.1), call.number(7, 1e-5)}, {0, -1, -1});
}

std::optional<Claimed> claim_no_training(const CallView& call) {
  return claimed(call, {false, false, call.number(5, 0.1), call.number(6, 1e-5)}, {0, -1, -1});
}

// -------------------------------------------------------------------------------- strategies

/// Weight and bias of the affine map that batch norm is in eval mode: of parameters alone.
std::pair<Tensor, Tensor> scale_and_shift(const BatchNormConfig& c, const Tensors& in) {
  Tensor scale = at::rsqrt(in[4] + c.eps);
  if (in[1].defined()) scale = scale * in[1];
  Tensor shift = -(in[3] * scale);
  if (in[2].defined()) shift = shift + in[2];
  return {scale, shift};
}

Tensor flat(const Tensor& t) { return t.defined() ? t.reshape({-1}) : t; }

/// Own statistics per channel are own statistics per model once the models lie in the channels.
Tensors train(const BatchNormConfig& c, const WideCall& call) {
  const Tensors& in = call.inputs;
  const auto wide = [&](const Tensor& t) { return t.view({call.n, -1}); };
  const bool two = in[0].dim() == 3;  // [N, B, C]
  const Tensor packed = pack_channels(two ? in[0].unsqueeze(-1) : in[0]);
  const auto image = [&](const Tensor& y) {
    const Tensor unpacked = unpack_channels(y, call.n);
    return two ? unpacked.squeeze(-1) : unpacked;
  };
  if (!in[3].defined()) {
    const auto [y, mean, invstd] =
        at::_native_batch_norm_legit(packed, flat(in[1]), flat(in[2]), true, c.momentum, c.eps);
    return {image(y), wide(mean), wide(invstd)};
  }
  // The operator without mutation has no gradient; this one has, and changes only our copies.
  Tensor running_mean = flat(in[3]).clone(), running_var = flat(in[4]).clone();
  const auto [y, mean, invstd] = at::_native_batch_norm_legit(
      packed, flat(in[1]), flat(in[2]), running_mean, running_var, true, c.momentum, c.eps);
  return {image(y), wide(mean), wide(invstd), wide(running_mean), wide(running_var)};
}

Tensors wide_norm(const BatchNormConfig& c, const WideCall& call) {
  if (c.training) return train(c, call);
  const auto [scale, shift] = scale_and_shift(c, call.inputs);
  const Tensor& x = call.inputs[0];
  return {at::addcmul(per_channel(shift, x.dim()), x, per_channel(scale, x.dim()))};
}

/// A convolution followed by eval-mode batch norm is a convolution with scaled weights.
std::optional<Tensors> into_convolution(const std::any&, const WideCall& convolution,
                                        const std::any& norm_config, const WideCall& norm) {
  const auto& c = std::any_cast<const BatchNormConfig&>(norm_config);
  if (c.training) return std::nullopt;
  const auto [scale, shift] = scale_and_shift(c, norm.inputs);
  const Tensor &w = convolution.inputs[1], &b = convolution.inputs[2];
  Sizes per_filter(static_cast<size_t>(w.dim()), 1);
  per_filter[0] = w.size(0);
  per_filter[1] = w.size(1);
  return Tensors{convolution.inputs[0], w * scale.reshape(per_filter),
                 b.defined() ? at::addcmul(shift, b, scale) : shift};
}

// ---------------------------------------------------------------------------- decompositions

/// Both of these update the running statistics without saying so in their schema; the operator
/// they are replaced by says it.
void legit(Stack& stack, size_t arguments, bool with_reserve) {
  const auto arg = [&](size_t i) -> IValue& { return stack[stack.size() - arguments + i]; };
  const auto optional = [&](size_t i) { return arg(i).isNone() ? Tensor() : arg(i).toTensor(); };
  Tensor mean = optional(3), var = optional(4);
  const Tensor x = arg(0).toTensor();
  auto [y, save_mean, save_invstd] = at::_native_batch_norm_legit(
      x, optional(1), optional(2), mean, var, true, arg(6).toDouble(), arg(7).toDouble());
  stack.resize(stack.size() - arguments);
  stack.insert(stack.end(), {IValue(y), IValue(save_mean), IValue(save_invstd)});
  if (!with_reserve) return;
  stack.push_back(IValue(at::empty({0}, x.options().dtype(at::kByte))));
  stack.push_back(IValue(int64_t{0}));
}

bool updates_statistics(c10::ArrayRef<IValue> in) {
  return in[5].toBool() && in[3].isTensor() && in[3].toTensor().defined();
}

[[maybe_unused]] const bool native = add_decomposition(
    {"aten::native_batch_norm", "its schema hides the update of the running statistics",
     updates_statistics, [](Stack& stack) { legit(stack, 8, false); }});
[[maybe_unused]] const bool index =
    add_decomposition({"aten::_batch_norm_impl_index", "cuDNN's batch norm hides the same update",
                       updates_statistics, [](Stack& stack) { legit(stack, 9, true); }});

// ------------------------------------------------------------------------------ registration

[[maybe_unused]] const bool fold_1d =
    add_fold({"batchnorm into conv1d", "conv1d", "batchnorm2d", into_convolution});
[[maybe_unused]] const bool fold_2d =
    add_fold({"batchnorm into conv2d", "conv2d", "batchnorm2d", into_convolution});
[[maybe_unused]] const bool fold_3d =
    add_fold({"batchnorm into conv3d", "conv3d", "batchnorm2d", into_convolution});

Target target() {
  Target t;
  t.name = "batchnorm2d";
  t.kind = Kind::primitive;
  t.family = "normalization";
  t.summary = "Batch normalisation, every model with its own statistics";
  t.formula = "y = (x - mean) / sqrt(var + eps) * w + b,  NBCHW, NC -> NBCHW";
  t.source = "torch.nn.BatchNorm2d";
  t.network = network;
  t.sweeps["quick"] = {quick_n(),
                       {{{"B", 8}, {"C", 64}, {"H", 32}, {"W", 32}},
                        {{"B", 8}, {"C", 64}, {"H", 32}, {"W", 32}, {"train", 1}}}};
  Sweep full{full_n_100(), {}};
  for (const int64_t b : {4, 8, 16, 32})
    for (const int64_t c : {32, 64, 128, 256})
      for (const int64_t h : {16, 32, 56})
        for (const int64_t train : {0, 1}) {
          Shape shape{{"B", b}, {"C", c}, {"H", h}, {"W", h}};
          full.shapes.push_back(train ? shape.set("train", 1) : shape);
        }
  t.sweeps["full"] = full;
  t.sweeps["ci"] = {{4, 16},
                    {{{"B", 4}, {"C", 32}, {"H", 16}, {"W", 16}},
                     {{"B", 4}, {"C", 32}, {"H", 16}, {"W", 16}, {"train", 1}}}};
  t.flops = [](const Shape& s) {
    return (s.get("train", 0) ? 7.0 : 2.0) * double(s["B"] * s["C"] * s["H"] * s["W"]);
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason =
      "x*scale + shift cancels where x is near the mean; variances sum B H W terms";
  t.refusals = {{{{"B", 1}, {"C", 4}, {"H", 1}, {"W", 1}, {"train", 1}},
                 "[batchnorm2d] B: got one value per channel, expected more in training; try B=2"}};
  t.claims = {{"aten::batch_norm", claim_region},
              {"aten::_native_batch_norm_legit_functional", claim_functional},
              {"aten::_native_batch_norm_legit_no_training", claim_no_training},
              {"aten::native_batch_norm", claim_eval}};
  t.strategies = {strategy<BatchNormConfig>(
      "wide", "eval: one multiply-add; train: the models as channels of one batch norm",
      wide_norm)};
  t.parameter_inputs = {false, true, true, true, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide
