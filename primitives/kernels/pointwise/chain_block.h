#pragma once
#include "primitives/kernels/pointwise/chain_code.h"

namespace wide::chains {

/// Runs the instructions over `count` elements of every slot. The result may overwrite an input.
void run_block(const Code& code, float* const* slots, size_t count);

/// Converts bools to 1 and 0.
void from_truth(const uint8_t* from, float* to, size_t count);

void fill(float* to, float value, size_t count);

}  // namespace wide::chains
