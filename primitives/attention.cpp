// attention: softmax(q kᵀ / sqrt(d) + mask) v per head, q k v and the result through linear layers
// shapes: x [N,B,T,D], in_proj [N,3D,D], out_proj [N,D,D] -> y [N,B,T,D]
// source: torch.nn.MultiheadAttention (self attention). Its linear layers are claimed by linear;
// claimed here is scaled_dot_product_attention, wherever a program calls it or writes it out.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/attention/attention.h"
#include "primitives/kernels/attention/blockwise_attention.h"
#include "primitives/patterns/attention.h"

namespace wide::attention_target {
namespace {

// ------------------------------------------------------------------------------ single model

/// Attention written out in products and softmax.
Tensor written_out(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(-1)));
  if (causal) {
    const Tensor all = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool));
    scores = scores.masked_fill(at::triu(all, 1), -INFINITY);
  }
  return at::matmul(at::softmax(scores, -1), v);
}

Network network(const Shape& shape) {
  divides("attention", shape, "D", "h");
  const int64_t d = shape["D"], h = shape["h"];
  const bool causal = shape.get("causal", 0) != 0, by_hand = shape.get("byhand", 0) != 0;
  const double scale = 1.0 / std::sqrt(double(d));
  Network net;
  net.name = "attention";
  net.tensors = {input("x", {shape["B"], shape["T"], d}),
                 parameter("in_proj_weight", {3 * d, d}, scale), parameter("in_proj_bias", {3 * d}),
                 parameter("out_proj.weight", {d, d}, scale), parameter("out_proj.bias", {d})};
  net.forward = [h, causal, by_hand](const Tensors& t) {
    const int64_t b = t[0].size(0), len = t[0].size(1), dim = t[0].size(2);
    const auto qkv =
        at::linear(t[0], t[1], t[2]).view({b, len, 3, h, dim / h}).permute({2, 0, 3, 1, 4});
    const Tensor a =
        by_hand ? written_out(qkv[0], qkv[1], qkv[2], causal)
                : at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, causal);
    return Tensors{at::linear(a.transpose(1, 2).reshape({b, len, dim}), t[3], t[4])};
  };
  return net;
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim(const CallView& call) {  // q, k, v, mask, p, causal, scale, gqa
  for (size_t i = 0; i < 3; ++i)
    if (!call.is_tensor(i) || call.value(i).sizes.size() < 3 || call.value(i).sizes.size() > 4)
      return std::nullopt;
  if (call.value(0).sizes.size() != call.value(1).sizes.size()) return std::nullopt;
  // q, k and v may broadcast; of these cases only one head of keys for all heads is claimed.
  for (size_t i = 1; i < 3; ++i) {
    const Sizes &q = call.value(0).sizes, &own = call.value(i).sizes;
    const bool grouped = call.size() > 7 && call.flag(7);
    if (own[0] != q[0] || own.size() != q.size()) return std::nullopt;
    if (q.size() == 4 && !grouped && own[1] != q[1] && own[1] != 1) return std::nullopt;
  }
  AttentionConfig c;
  c.dropout = call.number(4, 0.0);
  c.causal = call.flag(5);
  if (call.size() > 6 && !call.constant(6).isNone()) c.scale = call.number(6, 1.0);
  c.grouped_queries = call.size() > 7 && call.flag(7);
  c.empty_is_zero = true;
  return Claimed{c, {call.id(0), call.id(1), call.id(2), call.id(3)}, {0}};
}

// -------------------------------------------------------------------------------- strategies

/// A mask that is true for scores to keep. With `fill`, the claimed one is true for the others.
Tensor counted(const AttentionConfig& c, const Tensor& mask) {
  return c.fill && mask.defined() ? mask.logical_not() : mask;
}

Tensor keys(const AttentionConfig& c, const WideCall& call) {
  return c.keys_transposed ? call.inputs[1].transpose(-1, -2) : call.inputs[1];
}

/// Keys or values, expanded to the heads of q unless queries are grouped.
Tensor for_heads(const Tensor& t, const Tensor& q, bool grouped) {
  if (grouped || t.size(-3) == q.size(-3)) return t;
  Sizes sizes = t.sizes().vec();
  sizes[sizes.size() - 3] = q.size(-3);
  return t.expand(sizes);
}

/// With the axis of heads that the engine's kernels need.
Tensor with_heads(const Tensor& t, const Tensor& q) {
  return q.dim() == 4 ? t.unsqueeze(2) : for_heads(t, q, false);
}

double scale_of(const AttentionConfig& c, const Tensor& q) {
  return c.scale.value_or(1.0 / std::sqrt(double(q.size(-1))));
}

/// What the engine's kernels do not compute.
Applies engine_applies(const char* strategy, const AttentionConfig& c, const WideCall& call) {
  if (c.dropout > 0)
    return reason(strategy, "dropout", fmt::format("{}", c.dropout), "none", "math");
  if (c.grouped_queries && call.inputs[0].size(-3) != call.inputs[1].size(-3))
    return reason(strategy, "heads", "fewer of keys than of queries", "as many", "fused");
  return std::nullopt;
}

/// The engine's own products and softmax, one head at a time; the result has the layout that the
/// next layer reads.
Tensors packed(const AttentionConfig& c, const WideCall& call) {
  const Tensor& q = call.inputs[0];
  const bool one_head = q.dim() == 4;
  const auto rows = [&](const Tensor& t) {
    return with_heads(t.size(-1) == 1 || t.stride(-1) == 1 ? t : t.contiguous(), q);
  };
  Tensor mask = counted(c, aligned_mask(call));
  if (mask.defined() && one_head) mask = mask.unsqueeze(2);
  const Tensor y = attention(rows(q), with_heads(keys(c, call), q), rows(call.inputs[2]), mask,
                             c.causal, scale_of(c, q), c.empty_is_zero);
  return {one_head ? y.squeeze(2) : y};
}

Applies packed_applies(const AttentionConfig& c, const WideCall& call) {
  if (c.finite_fill())
    return reason("attention/packed", "mask", fmt::format("scores of {}", *c.fill), "-inf", "math");
  return engine_applies("attention/packed", c, call);
}

/// Like `packed`, but with a block of scores at a time, which the backward pass recomputes.
Tensors blockwise(const AttentionConfig& c, const WideCall& call) {
  const Tensor& q = call.inputs[0];
  const Tensor y = blockwise_attention(with_heads(q, q), with_heads(keys(c, call), q),
                                       with_heads(call.inputs[2], q), c.causal, scale_of(c, q));
  return {q.dim() == 4 ? y.squeeze(2) : y};
}

Applies blockwise_applies(const AttentionConfig& c, const WideCall& call) {
  if (call.inputs[3].defined())
    return reason("attention/blockwise", "mask", "one", "none, or a causal one", "fused");
  return engine_applies("attention/blockwise", c, call);
}

/// N folded into the batch: to PyTorch's kernel, N models are more sequences.
Tensors fused(const AttentionConfig& c, const WideCall& call) {
  const Tensor& q = call.inputs[0];
  Tensor mask = folded_mask(call, counted(c, aligned_mask(call)));
  const Tensor k = for_heads(keys(c, call), q, c.grouped_queries),
               v = for_heads(call.inputs[2], q, c.grouped_queries);
  // Without an axis of heads the kernel would compute all scores at once.
  const bool one_head = q.dim() == 4;
  const auto folded = [&](const Tensor& t) {
    return one_head ? t.flatten(0, 1).unsqueeze(1) : t.flatten(0, 1);
  };
  if (one_head && mask.defined()) mask = mask.unsqueeze(1);
  const Tensor y =
      at::scaled_dot_product_attention(folded(q), folded(k), folded(v), if_defined(mask), c.dropout,
                                       c.causal, c.scale, c.grouped_queries);
  return {(one_head ? y.squeeze(1) : y).unflatten(0, {call.n, q.size(1)})};
}

Applies fused_applies(const AttentionConfig& c, const WideCall&) {
  if (!c.finite_fill()) return std::nullopt;
  return reason("attention/fused", "mask", fmt::format("scores of {}", *c.fill), "-inf", "math");
}

/// Refuses shapes whose scores, of which there are several copies at once, take too much memory;
/// with a gradient, which would keep them, those with more scores than values of inputs and output.
Applies math_applies(const AttentionConfig& c, const WideCall& call) {
  constexpr double kMostBytes = 1 << 30;
  const Tensor &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  if (c.finite_fill() || c.dropout > 0) return std::nullopt;
  const int64_t rows = q.numel() / q.size(-1), scores = rows * v.size(-2);
  const int64_t others = q.numel() + k.numel() + v.numel() + rows * v.size(-1);
  if (at::GradMode::is_enabled() && scores > others)
    return reason("attention/math", "scores", fmt::format("{}, to be kept for a gradient", scores),
                  fmt::format("{} at most", others), "fused");
  const double bytes = double(scores) * double(q.itemsize());
  if (bytes <= kMostBytes) return std::nullopt;
  return reason("attention/math", "scores", fmt::format("{:.1f} GB", bytes * 1e-9), "1 GB at most",
                "fused");
}

/// Two batched GEMMs around a softmax; q, the smallest operand, is scaled. Half precision is summed
/// in float32, as in PyTorch's form.
Tensors math(const AttentionConfig& c, const WideCall& call) {
  const Tensor &q = call.inputs[0], &v = call.inputs[2];
  const int64_t depth = q.size(-1), from = q.size(-2), to = v.size(-2);
  const double scale = c.scale.value_or(1.0 / std::sqrt(double(depth)));
  const at::ScalarType own = q.scalar_type();
  const at::ScalarType sums = own == at::kHalf || own == at::kBFloat16 ? at::kFloat : own;
  const auto heads = [sums](const Tensor& t) { return t.flatten(0, -3).to(sums); };
  Tensor k = for_heads(keys(c, call), q, c.grouped_queries),
         values = for_heads(v, q, c.grouped_queries);
  if (c.grouped_queries) {
    k = k.repeat_interleave(q.size(-3) / k.size(-3), -3);
    values = values.repeat_interleave(q.size(-3) / values.size(-3), -3);
  }
  Tensor scores = at::bmm(heads(q) * scale, heads(k).transpose(1, 2));
  if (c.causal)
    scores =
        scores.masked_fill(at::ones({from, to}, q.options().dtype(at::kBool)).triu(1), -INFINITY);
  if (const Tensor mask = aligned_mask(call); mask.defined()) {
    Sizes sizes = q.sizes().vec();
    sizes.back() = to;
    scores = scores.view(sizes);
    if (c.fill)
      scores = scores.masked_fill(mask, *c.fill);
    else
      scores = mask.scalar_type() == at::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY)
                                               : scores + mask;
    scores = scores.flatten(0, -3);
  }
  Tensor weights = c.empty_is_zero && call.inputs[3].defined() ? at::_safe_softmax(scores, -1)
                                                               : at::softmax(scores, -1);
  if (c.dropout > 0) weights = at::dropout(weights, c.dropout, true);
  Sizes sizes = q.sizes().vec();
  sizes.back() = v.size(-1);
  return {at::bmm(weights, heads(values)).view(sizes).to(own)};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "attention";
  t.family = "attention";
  t.summary = "Multi-head self attention";
  t.formula = "y = softmax(q kᵀ / sqrt(d)) v,  NBTD -> NBTD";
  t.source = "torch.nn.MultiheadAttention";
  t.network = network;
  t.axes = axes({"B", "T", "D", "h"}, {{"causal", "1: causal, no step attends to later ones", 0},
                                       {"byhand", "1: products and softmax written out", 0}});
  t.sweeps["quick"] = {quick_n(), {"B=8 T=128 D=256 h=8"}};
  t.sweeps["full"] = {full_n(), grid({{"B", {4, 8, 16}},
                                      {"T", {64, 128, 256, 512}},
                                      {"D", {256, 512, 768}},
                                      {"h", {4, 8, 12}}})};
  auto& full = t.sweeps["full"].shapes;  // heads must divide D
  full.erase(
      std::remove_if(full.begin(), full.end(), [](const Shape& s) { return s["D"] % s["h"] != 0; }),
      full.end());
  t.sweeps["ci"] = {{4, 16}, {"B=4 T=64 D=128 h=4"}};
  t.flops = [](const Shape& s) {
    const double tokens = double(s["B"]) * double(s["T"]), d = double(s["D"]);
    return 8.0 * tokens * d * d + 4.0 * tokens * double(s["T"]) * d;
  };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "two linear layers around a softmax over T terms";
  t.odd_shapes = {"B=3 T=5 D=6 h=3", "B=1 T=7 D=4 h=1 causal=1", "B=2 T=5 D=6 h=3 byhand=1",
                  "B=3 T=7 D=4 h=2 causal=1 byhand=1"};
  t.refusals = {{"B=1 T=4 D=6 h=4", "[attention] h: got 4, expected a divisor of D=6; try h=1"}};
  t.oracle = R"(
mask = nn.Transformer.generate_square_subsequent_mask(a.T, dtype=torch.float64)
layer = load(nn.MultiheadAttention(a.D, a.h, batch_first=True))
x = t['x']
y = layer(x, x, x, attn_mask=mask if a.causal else None, need_weights=False)[0]
)";
  t.claims = {{"aten::scaled_dot_product_attention", claim}};
  t.patterns = attention_written_out();
  t.strategies = {
      strategy<AttentionConfig>("packed", "the engine's GEMM around a softmax, inference", packed,
                                packed_applies, {"wide::attention"}),
      strategy<AttentionConfig>("fused", "N folded into the batch of the attention kernel", fused,
                                fused_applies),
      strategy<AttentionConfig>("blockwise", "a block of scores at a time, with a backward pass",
                                blockwise, blockwise_applies, {"wide::blockwise_attention"}),
      strategy<AttentionConfig>("math", "two batched GEMMs around a softmax", math, math_applies)};
  t.parameter_inputs = {false, false, false, false};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::attention_target
