#pragma once
#include <c10/util/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "primitives/kernels/pointwise/chain_code.h"

/// Elementwise functions that a kernel applies to its results. As accurate as chains
/// (vector_math.h); NaN stays NaN.
namespace wide::activations {

/// The instruction of an activation by the text that `activation_text`
/// (engine/lower/plan/operator_traits.h) gives it, such as "gelu" or "elu 1 1 1"; null for "none",
/// throws c10::Error for any other. Lives as long as the thread.
const chains::Code* find(c10::string_view text);
/// The first words of all valid texts.
std::vector<std::string> names();

/// Whether the function never decreases and keeps infinities from becoming NaN, so that max pooling
/// may come first.
bool rises(const chains::Code& activation);

/// Applies it in place.
void run(const chains::Code& activation, float* data, int64_t count);
/// Applies it in place to `rows` of `columns` floats, `stride` floats apart.
void run(const chains::Code& activation, float* data, int64_t rows, int64_t columns,
         int64_t stride);

}  // namespace wide::activations
