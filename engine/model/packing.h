#pragma once
#include "engine/network.h"

namespace wide {

/// N models' tensors, `[model][k]`, to wide ones `[N, ...]`; a shared one is model 0's. Throws
/// Error if there are none, or sizes or dtypes differ between models. `into`: the result of an
/// earlier call for the same sizes, whose memory is reused if it fits, as allocating can take
/// longer than copying.
Tensors pack(const std::vector<Tensors>& separate, const std::vector<bool>& shared = {},
             const Tensors& into = {});
/// Views of wide tensors as each model's tensors.
std::vector<Tensors> unpack(const Tensors& wide, int64_t n);

/// N models' tensors `[B, C, ...]` side by side in one `[B, N*C, ...]`: model i has the channels
/// from i*C. Throws Error if there are none, sizes or dtypes differ, or there is no axis C.
Tensor to_channels(const Tensors& each);
/// The inverse, as views; throws Error if n does not divide the channels.
Tensors from_channels(const Tensor& packed, int64_t n);

}  // namespace wide
