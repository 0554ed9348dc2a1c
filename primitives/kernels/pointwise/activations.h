#pragma once
#include <c10/util/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "primitives/kernels/pointwise/chain_code.h"

/// Functions of one element that a kernel does to its results. Accurate as chains are
/// (vector_math.h); NaN stays NaN.
namespace wide::activations {

/// The instruction of an activation by the text that `activation_text`
/// (engine/lower/plan/operator_traits.h) gives it, such as "gelu" or "elu 1 1 1"; null for "none",
/// throws c10::Error for any other. Lives as long as the thread.
const chains::Code* find(c10::string_view text);
/// First words of the texts that there are.
std::vector<std::string> names();

/// Whether a greater argument never makes a smaller result, nor an infinite one NaN, so that a
/// maximum may as well be taken first.
bool rises(const chains::Code& activation);

/// In place.
void run(const chains::Code& activation, float* data, int64_t count);
/// In place, `rows` of `columns` floats each, `stride` floats apart.
void run(const chains::Code& activation, float* data, int64_t rows, int64_t columns,
         int64_t stride);

}  // namespace wide::activations
