// linear: y = x Wᵀ + b
// shapes: x [N,B,..,I], W [N,O,I], b [N,O] -> y [N,B,..,O]   (NBI, NOI -> NBO)
// source: torch.nn.Linear
#include <ATen/ATen.h>

#include "engine/widen/capabilities.h"
#include "engine/widen/describe.h"
#include "primitives/kernels/gemm/bf16_linear.h"
#include "primitives/kernels/gemm/packed_linear.h"
#include "primitives/norm/batchnorm_common.h"

namespace wide::linear_target {
namespace {

/// `transposed`: the second operand is `[I, O]`, as for addmm and mm.
struct LinearConfig {
  bool transposed = false;
  bool pack = true;
  std::string text() const {
    return fmt::format("weight={} pack={}", transposed ? "io" : "oi", pack ? 1 : 0);
  }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  at_least_where_given("linear", shape, {"T", "O"}, 1);
  const int64_t in = shape["D"], out = shape.get("O", in);
  Sizes x{shape["B"], in};
  if (shape.has("T")) x.insert(x.begin() + 1, shape["T"]);
  return {.name = "linear",
          .tensors = {input("x", x), parameter("weight", {out, in}, 1.0 / std::sqrt(double(in))),
                      parameter("bias", {out})},
          .forward = [](const Tensors& t) { return Tensors{at::linear(t[0], t[1], t[2])}; }};
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim_linear(const CallView& call) {
  if (!call.is_tensor(0) || !call.is_tensor(1) || call.value(1).sizes.size() != 2)
    return std::nullopt;
  if (call.is_tensor(2) && call.value(2).sizes != Sizes{call.value(1).sizes[0]})
    return std::nullopt;  // the bias broadcasts
  return Claimed{LinearConfig{}, {call.id(0), call.id(1), call.id(2)}, {}};
}

/// Whether to pack the second operand: a weight (also seen through `t`) is packed once, as it
/// depends on parameters alone. Other operands are multiplied in place.
LinearConfig matrix_config(const Value& second) {
  const bool seen_transposed =
      second.strides.size() == 2 && second.strides[0] == 1 && second.strides[1] != 1;
  return {true, seen_transposed || second.role == Role::parameter || second.role == Role::buffer};
}

std::optional<Claimed> claim_addmm(const CallView& call) {  // self, x, w, beta, alpha
  if (!call.is_tensor(0) || !call.is_tensor(1) || !call.is_tensor(2)) return std::nullopt;
  if (call.number(3, 1.0) != 1.0 || call.number(4, 1.0) != 1.0) return std::nullopt;
  const auto& bias = call.value(0).sizes;
  if (bias.size() != 1 || bias[0] != call.value(2).sizes[1]) return std::nullopt;
  return Claimed{matrix_config(call.value(2)), {call.id(1), call.id(2), call.id(0)}, {}};
}

std::optional<Claimed> claim_mm(const CallView& call) {
  if (!call.is_tensor(0) || !call.is_tensor(1)) return std::nullopt;
  return Claimed{matrix_config(call.value(1)), {call.id(0), call.id(1), kNone}, {}};
}

// -------------------------------------------------------------------------------- strategies

/// x as [N, rows, I] and the weights as [N, I, O].
struct Operands {
  Tensor x, w, bias;
  Sizes result;
};

Operands operands(const LinearConfig& config, const WideCall& call) {
  Operands o;
  const Tensor& x = call.inputs[0];
  o.w = config.transposed ? call.inputs[1] : call.inputs[1].transpose(1, 2);
  // The GEMM reads contiguous weights fastest; this copy of a parameter is made only once.
  if (config.pack) o.w = o.w.contiguous();
  o.result = x.sizes().vec();
  o.result.back() = o.w.size(2);
  o.x = x.dim() == 3 ? x : x.reshape({call.n, -1, x.size(-1)});
  if (call.inputs[2].defined()) o.bias = call.inputs[2].unsqueeze(1);
  return o;
}

Tensor shaped(const Tensor& y, const Sizes& sizes) {
  return y.sizes() == c10::IntArrayRef(sizes) ? y : y.view(sizes);
}

/// The engine's own GEMM: packed weights and bias, near the core's peak for any number of rows.
/// Half precision uses the processor's instructions for it, or else is computed in float32 and
/// rounded once.
Tensors packed(const LinearConfig& config, const WideCall& call) {
  const Tensor& weight = call.inputs[1];
  const Tensor w = config.transposed ? weight : weight.transpose(1, 2);
  const Tensor x = call.inputs[0].reshape({call.n, -1, w.size(1)});
  std::optional<Tensor> bias = if_defined(call.inputs[2]);
  Sizes result = call.inputs[0].sizes().vec();
  result.back() = w.size(2);
  if (takes("wide::bf16_linear", {x, w}))
    return {shaped(bf16_linear(x, pack_pairs(w), bias), result)};
  const auto single = [](const Tensor& t) { return t.to(at::kFloat); };
  const Tensor rows = single(x.size(2) == 1 || x.stride(2) == 1 ? x : x.contiguous());
  if (bias) bias = single(*bias);
  const Tensor y = packed_linear(rows, pack_panels(single(w), bias), w.size(2));
  return {shaped(y, result).to(x.scalar_type())};
}

Applies packed_applies(const LinearConfig& config, const WideCall&) {
  if (config.pack) return std::nullopt;
  return reason("linear/packed", "call", "a matrix that is computed", "a weight", "einsum");
}

Tensors einsum(const LinearConfig& config, const WideCall& call) {
  const Operands o = operands(config, call);
  Tensor y = at::bmm(o.x, o.w);
  // Added after the GEMM: baddbmm is slower than another pass over a result in cache.
  if (o.bias.defined()) y = y + o.bias;
  return {shaped(y, o.result)};
}

Tensors baddbmm(const LinearConfig& config, const WideCall& call) {
  const Operands o = operands(config, call);
  return {shaped(at::baddbmm(o.bias, o.x, o.w), o.result)};
}

Applies baddbmm_applies(const LinearConfig&, const WideCall& call) {
  if (call.inputs[2].defined()) return std::nullopt;
  return reason("linear/baddbmm", "bias", "none", "a bias to add", "einsum");
}

// -------------------------------------------------------------------------------------- fold

/// Folds a following eval-mode batch norm over the result's columns into the weights; only if there
/// are at most as many weights as results, since weights may change with every call.
std::optional<Tensors> fold_batch_norm(const std::any& config, const WideCall& linear,
                                       const std::any& norm_config, const WideCall& norm) {
  const auto& c = std::any_cast<const LinearConfig&>(config);
  const Tensor& x = linear.inputs[0];
  if (!c.pack || x.dim() != 3 || x.size(1) < x.size(2)) return std::nullopt;  // x NBI: y is NBC
  WideCall call = linear;
  if (c.transposed) call.inputs[1] = call.inputs[1].transpose(1, 2);
  auto folded = batchnorm::into_convolution(config, call, norm_config, norm);
  if (folded && c.transposed) (*folded)[1] = (*folded)[1].transpose(1, 2);
  return folded;
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "linear";
  t.family = "linear";
  t.summary = "Affine map of the last axis";
  t.formula = "y = x Wᵀ + b,  NBI, NOI -> NBO";
  t.source = "torch.nn.Linear";
  t.network = network;
  t.axes = {{"B", "samples"},
            {"T", "steps of a sequence", {}, "none: x is [B, D]"},
            {"D", "features in"},
            {"O", "features out", {}, "D"}};
  t.sweeps["quick"] = {quick_n(), {"B=16 D=256"}};
  t.sweeps["full"] = {full_n_100(), grid({{"B", {8, 16, 32, 64}}, {"D", {128, 256, 512, 768}}})};
  t.sweeps["ci"] = {{4, 16}, {"B=8 D=128"}};
  t.flops = [](const Shape& s) {
    return 2.0 * double(s["B"]) * double(s.get("T", 1)) * double(s["D"]) *
           double(s.get("O", s["D"]));
  };
  t.tolerance = {{at::kFloat, 5e-5}, {at::kDouble, 1e-11}};
  t.tolerance_reason =
      "dot products of up to 768 terms, summed in an order of the library's choice";
  t.odd_shapes = {"B=1 D=1", "B=3 D=7 O=5", "B=2 T=3 D=5"};
  t.refusals = {{"B=4 D=0", "[linear] D: got 0, expected at least 1; try D=1"}};
  t.oracle = "y = load(nn.Linear(a.D, a.O or a.D))(t['x'])";
  t.claims = {{"aten::linear", claim_linear}, {"aten::addmm", claim_addmm}, {"aten::mm", claim_mm}};
  t.strategies = {
      strategy<LinearConfig>("packed", "the engine's GEMM over packed weights, inference", packed,
                             packed_applies, {"wide::pack_panels", "wide::packed_linear"}),
      strategy<LinearConfig>("einsum", "one batched GEMM over packed weights, bias after it",
                             einsum),
      strategy<LinearConfig>("baddbmm", "one batched GEMM that adds the bias", baddbmm,
                             baddbmm_applies)};
  t.strategies.front().converts = {at::kBFloat16};
  t.parameter_inputs = {false, true, true};
  return t;
}

[[maybe_unused]] const bool fold =
    add_fold({"batchnorm into linear", "linear", "batchnorm1d", fold_batch_norm});
WIDE_TARGET(target);

}  // namespace
}  // namespace wide::linear_target
