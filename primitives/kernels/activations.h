#pragma once
#include <cstdint>

/// Activations in place, vectorised: what the engine's GEMM does to a result while it is in cache.
/// NaN stays NaN. Absolute errors against the exact functions, relative to |x| or one: relu none,
/// the others below 3e-7.
namespace wide::activations {

void relu(float* data, int64_t count);
void silu(float* data, int64_t count);       // x / (1 + e^-x)
void gelu(float* data, int64_t count);       // x (1 + erf(x / sqrt 2)) / 2
void gelu_tanh(float* data, int64_t count);  // its approximation through tanh

}  // namespace wide::activations
