// Decompositions of the fused inference operators behind nn.MultiheadAttention and
// nn.TransformerEncoderLayer. They have no batching rule; decomposed into linear,
// scaled_dot_product_attention and layer_norm, every part is claimed by its primitive. LibTorch's
// C++ attention also compares its inputs, to multiply equal ones once: the same tensor is equal,
// different sizes are not, whatever the data.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::transformer_rules {
namespace {

/// Arguments of a call by position.
struct Call {
  c10::ArrayRef<IValue> in;
  Tensor tensor(size_t i) const { return in[i].isTensor() ? in[i].toTensor() : Tensor(); }
  int64_t integer(size_t i) const { return in[i].toInt(); }
  bool flag(size_t i) const { return in[i].toBool(); }
  bool nested(size_t i) const { return tensor(i).defined() && tensor(i).is_nested(); }
};

/// A mask for scores [B, h, T, T] from one in which true means "do not look". Kinds: 0 over [T, T],
/// 1 over keys [B, T], 2 over all [B, h, T, T].
std::optional<Tensor> keep_mask(const Tensor& mask, std::optional<int64_t> kind) {
  if (!mask.defined()) return std::nullopt;
  Tensor away = mask.to(at::kBool);
  if (kind == 1 && away.dim() == 2) away = away.unsqueeze(1).unsqueeze(1);
  return away.logical_not();
}

std::optional<int64_t> mask_kind(const IValue& v) {
  return v.isNone() ? std::nullopt : std::optional<int64_t>(v.toInt());
}

Tensor self_attention(const Tensor& x, int64_t heads, const Tensor& qkv_weight,
                      const Tensor& qkv_bias, const Tensor& out_weight, const Tensor& out_bias,
                      const std::optional<Tensor>& keep) {
  const int64_t batch = x.size(0), length = x.size(1), dim = x.size(2);
  const Tensor qkv = at::linear(x, qkv_weight, qkv_bias)
                         .view({batch, length, 3, heads, dim / heads})
                         .permute({2, 0, 3, 1, 4});
  const Tensor a =
      at::scaled_dot_product_attention(qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2), keep);
  return at::linear(a.transpose(1, 2).reshape({batch, length, dim}), out_weight, out_bias);
}

// query, key, value, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
// need_weights, average_weights, mask_type

bool attention_applies(c10::ArrayRef<IValue> in) {
  const Call c{in};
  const bool self = in[0].isTensor() && in[1].isTensor() && in[2].isTensor() &&
                    c.tensor(0).unsafeGetTensorImpl() == c.tensor(1).unsafeGetTensorImpl() &&
                    c.tensor(0).unsafeGetTensorImpl() == c.tensor(2).unsafeGetTensorImpl();
  return self && !c.nested(0) && c.tensor(0).dim() == 3 && !c.flag(10);
}

/// The attention weights, which are not returned, are undefined.
Stack attention(c10::ArrayRef<IValue> in) {
  const Call c{in};
  return {self_attention(c.tensor(0), c.integer(4), c.tensor(5), c.tensor(6), c.tensor(7),
                         c.tensor(8), keep_mask(c.tensor(9), mask_kind(c.in[12]))),
          Tensor()};
}

// src, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
// norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
// ffn_bias_2, mask, mask_type

bool layer_applies(c10::ArrayRef<IValue> in) {
  const Call c{in};
  return !c.nested(0) && c.tensor(0).dim() == 3;
}

Stack layer(c10::ArrayRef<IValue> in) {
  const Call c{in};
  const bool gelu = c.flag(7), norm_first = c.flag(8);
  const double eps = c.in[9].toDouble();
  const auto norm = [&](const Tensor& t, size_t at) {
    return at::layer_norm(t, {c.integer(1)}, c.tensor(at), c.tensor(at + 1), eps);
  };
  Tensor x = c.tensor(0);
  const auto keep = keep_mask(c.tensor(18), mask_kind(c.in[19]));
  const Tensor a = self_attention(norm_first ? norm(x, 10) : x, c.integer(2), c.tensor(3),
                                  c.tensor(4), c.tensor(5), c.tensor(6), keep);
  x = x + a;
  if (!norm_first) x = norm(x, 10);
  Tensor hidden = at::linear(norm_first ? norm(x, 12) : x, c.tensor(14), c.tensor(15));
  hidden = gelu ? at::gelu(hidden) : at::relu(hidden);
  x = x + at::linear(hidden, c.tensor(16), c.tensor(17));
  if (!norm_first) x = norm(x, 12);
  return {x};
}

bool one_tensor(const Tensor& a, const Tensor& b) {
  return a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl();
}

bool equal_applies(c10::ArrayRef<IValue> in) {
  const Call c{in};
  const Tensor a = c.tensor(0), b = c.tensor(1);
  return a.defined() && b.defined() && a.scalar_type() == b.scalar_type() &&
         (one_tensor(a, b) || a.sizes() != b.sizes());
}

[[maybe_unused]] const bool registered[] = {
    add_decomposition({"aten::equal", "it gives Python a number, which only the data may tell",
                       equal_applies,
                       [](c10::ArrayRef<IValue> in) {
                         return Stack{one_tensor(in[0].toTensor(), in[1].toTensor())};
                       }}),
    add_decomposition({"aten::_native_multi_head_attention", "it has no batching rule",
                       attention_applies, attention}),
    add_decomposition(
        {"aten::_transformer_encoder_layer_fwd", "it has no batching rule", layer_applies, layer})};

}  // namespace
}  // namespace wide::transformer_rules
