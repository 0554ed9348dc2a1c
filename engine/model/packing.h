#pragma once
#include "engine/network.h"

namespace wide {

/// N models' tensors, `[model][k]`, to wide ones `[N, ...]`; a shared one is model 0's. Throws
/// Error when there are none, or sizes or dtypes differ between models. `into`: what an earlier
/// call gave for models of the same sizes, whose memory is written again; new memory can take
/// longer than the copies. Without it, or where it does not fit, memory is new.
Tensors pack(const std::vector<Tensors>& separate, const std::vector<bool>& shared = {},
             const Tensors& into = {});
/// Wide tensors to each model's own, as views.
std::vector<Tensors> unpack(const Tensors& wide, int64_t n);

/// N models' tensors `[B, C, ...]` side by side in one `[B, N*C, ...]`: model i has the channels
/// from i*C. Throws Error when there are none, sizes or dtypes differ, or there is no axis C.
Tensor to_channels(const Tensors& each);
/// The inverse, as views; throws Error where n does not divide the channels.
Tensors from_channels(const Tensor& packed, int64_t n);

}  // namespace wide
