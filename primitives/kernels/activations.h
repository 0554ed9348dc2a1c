#pragma once
#include <c10/util/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

/// Activations in place, vectorised: what the engine's GEMM does to a result while it is in cache.
/// NaN stays NaN. Absolute errors against the exact functions, relative to |x| or one: relu none,
/// the others below 3e-7.
namespace wide::activations {

void relu(float* data, int64_t count);
void silu(float* data, int64_t count);       // x / (1 + e^-x)
void gelu(float* data, int64_t count);       // x (1 + erf(x / sqrt 2)) / 2
void gelu_tanh(float* data, int64_t count);  // its approximation through tanh
void tanh(float* data, int64_t count);
void sigmoid(float* data, int64_t count);

using InPlace = void (*)(float* data, int64_t count);
/// By the names that `activation_name` (engine/lower/operator_traits.h) gives them; null for
/// "none", throws c10::Error for any other.
InPlace find(c10::string_view name);
std::vector<std::string> names();

}  // namespace wide::activations
