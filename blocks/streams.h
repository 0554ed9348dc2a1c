#pragma once
#include "blocks/layers.h"

namespace wide {

/// Shared by the blocks of diffusion transformers (FLUX).

/// Rotary position embedding. x `[B,h,T,d]`, rope `[T,d]` in radians. Neighbouring channels are a
/// pair: (2k, 2k+1) are rotated together, each by the angle of its own column; a rotation if the
/// two columns agree. Undefined rope: x itself.
inline Tensor rotated(const Tensor& x, const Tensor& rope) {
  if (!rope.defined()) return x;
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  const Tensor turned = at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  return x * rope.cos() + turned * rope.sin();
}

/// Queries, keys and values, `[B,h,T,d]` each.
struct Heads {
  Tensor q, k, v;
};

inline Heads split_heads(const Tensor& qkv, int64_t h) {
  const int64_t b = qkv.size(0), len = qkv.size(1), dim = qkv.size(2) / 3;
  const auto parts = qkv.view({b, len, 3, h, dim / h}).permute({2, 0, 3, 1, 4}).unbind(0);
  return {parts[0], parts[1], parts[2]};
}

/// Attention of rotated queries and keys: `[B,T,h d]`.
inline Tensor attend(const Heads& heads, const Tensor& rope) {
  const Tensor a =
      at::scaled_dot_product_attention(rotated(heads.q, rope), rotated(heads.k, rope), heads.v);
  return a.transpose(1, 2).flatten(-2);
}

/// Attention over two sequences joined, text first; the result split again.
inline std::pair<Tensor, Tensor> attend_jointly(const Heads& text, const Heads& image,
                                                const Tensor& rope) {
  const Tensor a = attend(
      {at::cat({text.q, image.q}, 2), at::cat({text.k, image.k}, 2), at::cat({text.v, image.v}, 2)},
      rope);
  const int64_t first = text.q.size(2);
  return {a.slice(1, 0, first), a.slice(1, first)};
}

/// Layer norm without an affine part, then scaled and shifted: x `[B,T,D]`, scale and shift
/// `[B,D]`.
inline Tensor modulated(const Tensor& x, const Tensor& shift, const Tensor& scale) {
  const Tensor normal = at::layer_norm(x, {x.size(-1)}, {}, {}, 1e-6);
  return normal * (scale.unsqueeze(1) + 1) + shift.unsqueeze(1);
}

/// x + gate y: gate `[B,D]`.
inline Tensor gated_residual(const Tensor& x, const Tensor& gate, const Tensor& y) {
  return x + gate.unsqueeze(1) * y;
}

/// Refuses sizes that cannot be split into heads, or heads without pairs of channels to rotate.
/// Returns whether positions are rotated: axis `rope`, 1 by default.
inline bool check_heads(const char* target, const Shape& shape) {
  divides(target, shape, "D", "h");
  const int64_t rope = shape.get("rope", 1), depth = shape["D"] / shape["h"];
  if (rope != 0 && rope != 1) fail("[{}] rope: got {}, expected 0 or 1; try rope=1", target, rope);
  if (rope == 1 && depth % 2 != 0)
    fail("[{}] D/h: got {}, expected an even number of channels to rotate; try rope=0", target,
         depth);
  return rope == 1;
}

/// Declares rope `[T,d]` as the last input, if `wanted`.
inline void rope_input(Layers& layers, int64_t length, int64_t depth, bool wanted) {
  if (wanted) layers.input("rope", {length, depth});
}

/// The same parts for the oracles, in Python and by other operators: complex numbers for rotations,
/// slices for heads, softmax written out.
inline constexpr const char* kStreamsOracle = R"(
def rotate(x, angles):
    """Channels (2k, 2k+1) of a head as one complex number, turned by the angle of each column."""
    if angles is None:
        return x
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    turn = torch.polar(torch.ones_like(angles), angles).unflatten(-1, (-1, 2))
    return torch.stack([(z * turn[..., 0]).real, (z * turn[..., 1]).imag], -1).flatten(-2)

def heads(qkv, h):
    """q, k and v as [B, h, T, d]."""
    b, length, dim = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    return [qkv[..., i * dim:(i + 1) * dim].reshape(b, length, h, dim // h).transpose(1, 2)
            for i in range(3)]

def attend(q, k, v, angles):
    q, k = rotate(q, angles), rotate(k, angles)
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
    return (weights @ v).transpose(1, 2).flatten(-2)

def attend_jointly(parts, angles):
    first = parts[0][0].shape[2]
    y = attend(*(torch.cat(pair, 2) for pair in zip(*parts)), angles)
    return y[:, :first], y[:, first:]

def modulate(x, shift, scale):
    normal = nn.LayerNorm(x.shape[-1], eps=1e-6, elementwise_affine=False)(x)
    return normal * (1 + scale[:, None]) + shift[:, None]
)";

}  // namespace wide
