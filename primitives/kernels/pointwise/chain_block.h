#pragma once
#include "primitives/kernels/pointwise/chain_code.h"

namespace wide::chains {

/// Runs the instructions over `count` elements of every slot. The result may lie where an input
/// lies.
void run_block(const Code& code, float* const* slots, size_t count);

/// One where `from` is true, else zero.
void from_truth(const uint8_t* from, float* to, size_t count);

/// Sets all of them.
void fill(float* to, float value, size_t count);

}  // namespace wide::chains
