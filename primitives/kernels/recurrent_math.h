#pragma once
#include <cstdint>

/// Exponential, sigmoid and tanh as straight arithmetic, without branches or calls, so that a loop
/// over them vectorises. Within 2e-7 of the true values, relative; NaN stays NaN. Included by the
/// recurrent kernel and its test.
namespace wide::recurrent_math {

#define WIDE_INLINE inline __attribute__((always_inline))

// Standard C++ keeps a product and a sum apart; here they may be one instruction. No trap is looked
// for, so a comparison may be computed for all elements; and a chain of them stays the few selects
// that it is (threaded through each other they double a loop's time).
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast", "no-trapping-math", "no-thread-jumps", \
                     "no-tree-dominator-opts", "no-tree-vrp")

/// e^x = scale (1 + rest), rest = e^r - 1 with r in +-ln(2)/2; |x| up to 87. NaN goes to the rest.
struct Split {
  float scale, rest;
};

WIDE_INLINE Split split_exponential(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: the sum's low bits are the rounded integer
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.394633436575532e-3F;  // minimax, 1.6e-8 relative to the rest
  p = p * r + 8.366525173187256e-3F;
  p = p * r + 4.166628420352936e-2F;
  p = p * r + 1.666654348373413e-1F;
  p = p * r + 0.5F;
  const auto bits = (__builtin_bit_cast(uint32_t, shifted) << 23U) + 0x3F800000U;
  return {__builtin_bit_cast(float, bits), p * (r * r) + r};
}

/// Keeps NaN: only what compares beyond the limit is replaced.
WIDE_INLINE float clamped(float x, float limit) {
  x = limit < x ? limit : x;
  return -limit > x ? -limit : x;
}

/// 1 + e^-x, the reciprocal of the sigmoid.
WIDE_INLINE float one_plus_exponential(float x) {
  const Split e = split_exponential(-clamped(x, 87.0F));
  return 1.0F + (e.scale * e.rest + e.scale);
}

WIDE_INLINE float sigmoid(float x) { return 1.0F / one_plus_exponential(x); }

/// e^2x - 1 without cancellation near zero: tanh x is this over itself plus two. Beyond 10 tanh is
/// one to the last bit of a float.
WIDE_INLINE float tanh_numerator(float x) {
  const Split e = split_exponential(clamped(2.0F * x, 20.0F));
  return e.scale * e.rest + (e.scale - 1.0F);
}

WIDE_INLINE float hyperbolic_tangent(float x) {
  const float e = tanh_numerator(x);
  return e / (e + 2.0F);
}

/// sigmoid(gate) tanh(x) with one division.
WIDE_INLINE float gated_tangent(float gate, float x) {
  const float e = tanh_numerator(x);
  return e / ((e + 2.0F) * one_plus_exponential(gate));
}

#pragma GCC pop_options

}  // namespace wide::recurrent_math
