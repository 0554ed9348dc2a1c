#pragma once
// Shared by group norm and instance norm (groups of one channel): statistics per sample.
#include "primitives/kernels/norm/norms.h"
#include "primitives/layout.h"

namespace wide {

/// Inputs x `[N,B,C,...]`, weight and bias `[N,C]` or none. If models are packed into channels, as
/// after a grouped convolution, one group norm handles all models' groups with their affine parts.
/// Otherwise models are stacked into the batch. Contiguous: with channels last PyTorch subtracts
/// the squared mean from the mean of squares, which loses the variance of values far from 0.
inline Tensor sample_norm(const WideCall& call, int64_t groups, double eps) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1], &b = call.inputs[2];
  if (x.dim() == 3 || cheapest_folding(x) == Folding::packed) {
    const auto flat = [](const Tensor& t) { return t.defined() ? t.reshape({-1}) : t; };
    const Tensor packed = pack_channels(x).contiguous();
    return unpack_channels(at::group_norm(packed, groups * call.n, flat(w), flat(b), eps), call.n);
  }
  Tensor y = at::group_norm(fold(x, Folding::stacked).contiguous(), groups, {}, {}, eps);
  y = unfold(y, Folding::stacked, call.n);
  if (w.defined() && b.defined())
    return at::addcmul(per_channel(b, y.dim()), y, per_channel(w, y.dim()));
  if (w.defined()) y = y * per_channel(w, y.dim());
  if (b.defined()) y = y + per_channel(b, y.dim());
  return y;
}

}  // namespace wide
