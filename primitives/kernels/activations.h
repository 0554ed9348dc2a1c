#pragma once
#include <c10/util/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "primitives/kernels/chain_code.h"

/// What a kernel does to its results while they are in cache: a sum, then an activation. Accurate
/// as chains are (vector_math.h); NaN stays NaN.
namespace wide::activations {

/// The instruction of an activation by the text that `activation_text`
/// (engine/lower/operator_traits.h) gives it, such as "gelu" or "elu 1 1 1"; null for "none",
/// throws c10::Error for any other. Lives as long as the thread.
const chains::Code* find(c10::string_view text);
/// First words of the texts that there are.
std::vector<std::string> names();

/// In place.
void run(const chains::Code& activation, float* data, int64_t count);
/// data += more.
void add(float* data, const float* more, int64_t count);

}  // namespace wide::activations
