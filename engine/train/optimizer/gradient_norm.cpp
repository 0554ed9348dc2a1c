#include "engine/train/optimizer/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wide {
namespace {

constexpr int64_t kLanes = 16, kBlock = 1024;

/// Sums in lanes of T over a block, then in double, always in the same order.
#define WIDE_BLOCK_SUM(T)                                                                         \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) double block_sum( \
      const T* data, int64_t count) {                                                             \
    T lanes[kLanes] = {};                                                                         \
    int64_t i = 0;                                                                                \
    for (; i + kLanes <= count; i += kLanes)                                                      \
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] += data[i + k] * data[i + k];                 \
    double sum = 0;                                                                               \
    for (int64_t k = 0; k < kLanes; ++k) sum += double(lanes[k]);                                 \
    for (; i < count; ++i) sum += double(data[i]) * double(data[i]);                              \
    return sum;                                                                                   \
  }
WIDE_BLOCK_SUM(float)
WIDE_BLOCK_SUM(double)

/// The sum for numbers whose squares overflow; not finite only if a number is not.
template <class T>
double checked(const T* data, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(data[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(double(data[i])));
  }
  if (largest == 0) return 0;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += (double(data[i]) / largest) * (double(data[i]) / largest);
  return std::min(sum * largest * largest, std::numeric_limits<double>::max());
}

template <class T>
double total(const T* data, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kBlock)
    sum += block_sum(data + i, std::min(kBlock, count - i));
  return std::isfinite(sum) ? sum : checked(data, count);
}

}  // namespace

double sum_of_squares(const float* data, int64_t count) { return total(data, count); }
double sum_of_squares(const double* data, int64_t count) { return total(data, count); }

}  // namespace wide
