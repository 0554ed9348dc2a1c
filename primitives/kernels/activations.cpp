#include "primitives/kernels/activations.h"

#include <c10/util/Exception.h>

#include "primitives/kernels/operators.h"
#include "primitives/kernels/recurrent_math.h"

namespace wide::activations {

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast", "no-trapping-math", "no-thread-jumps", \
                     "no-tree-dominator-opts", "no-tree-vrp")

namespace {

/// Half of erfc(|x| / sqrt 2): the normal distribution's upper tail. Abramowitz and Stegun 7.1.26,
/// absolute error 7.5e-8.
WIDE_INLINE float upper_tail(float x) {
  const float magnitude = (x < 0.0F ? -x : x) * 0.70710678F;
  const float t = 1.0F / (1.0F + 0.3275911F * magnitude);
  float p = 1.061405429F * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const auto e =
      recurrent_math::split_exponential(-recurrent_math::clamped(magnitude * magnitude, 87.0F));
  return 0.5F * p * t * (e.scale * e.rest + e.scale);
}

}  // namespace

WIDE_CLONES void relu(float* data, int64_t count) {
  // Keeps NaN, as relu does: only what compares below zero is replaced.
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) data[i] = data[i] < 0.0F ? 0.0F : data[i];
}

WIDE_CLONES void silu(float* data, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    data[i] = data[i] / recurrent_math::one_plus_exponential(data[i]);
}

WIDE_CLONES void gelu(float* data, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float x = data[i], tail = upper_tail(x);
    data[i] = x * (x < 0.0F ? tail : 1.0F - tail);
  }
}

WIDE_CLONES void gelu_tanh(float* data, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float x = data[i], u = x * (1.595769122F + 0.071354816F * x * x);
    data[i] = x / recurrent_math::one_plus_exponential(u);
  }
}

WIDE_CLONES void tanh(float* data, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) data[i] = recurrent_math::hyperbolic_tangent(data[i]);
}

WIDE_CLONES void sigmoid(float* data, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) data[i] = recurrent_math::sigmoid(data[i]);
}

#pragma GCC pop_options

namespace {

constexpr std::pair<const char*, InPlace> kAll[] = {{"relu", relu}, {"silu", silu},
                                                    {"gelu", gelu}, {"gelu_tanh", gelu_tanh},
                                                    {"tanh", tanh}, {"sigmoid", sigmoid}};

}  // namespace

InPlace find(c10::string_view name) {
  if (name == "none") return nullptr;
  for (const auto& [known, function] : kAll)
    if (name == known) return function;
  TORCH_CHECK(false, "wide::activations: got ", name, ", expected none or one of ", names());
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, function] : kAll) all.emplace_back(name);
  return all;
}

}  // namespace wide::activations
