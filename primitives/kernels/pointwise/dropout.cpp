#include "primitives/kernels/pointwise/dropout.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/pointwise/dropout.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::dropout_rows::HWY_NAMESPACE {

constexpr int64_t kLanes = 16;
using Lanes = uint32_t __attribute__((vector_size(kLanes * 4)));
using Floats = float __attribute__((vector_size(kLanes * 4)));

/// splitmix64: neighbouring seeds give unrelated states.
uint64_t next_state(uint64_t& x) {
  x += 0x9e3779b97f4a7c15ULL;
  uint64_t z = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

/// xoshiro128++ (Blackman and Vigna) in sixteen lanes. An element is kept when its 32 bits are
/// below `keep`.
void drop(float* y, const float* x, int64_t count, uint64_t seed, uint32_t keep, float scale) {
  seed = next_state(seed);
  Lanes s[4];
  for (Lanes& lanes : s)
    for (int64_t k = 0; k < kLanes; k += 2) {
      const uint64_t bits = next_state(seed);
      lanes[k] = static_cast<uint32_t>(bits);
      lanes[k + 1] = static_cast<uint32_t>(bits >> 32U);
    }
  const Floats on = Floats{} + scale, off{};
  const Lanes limit = Lanes{} + keep;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes sum = s[0] + s[3];
    const Lanes drawn = ((sum << 7U) | (sum >> 25U)) + s[0];
    const Lanes shifted = s[1] << 9U;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11U) | (s[3] >> 21U);
    const Floats mask = drawn < limit ? on : off;
    const auto bytes = static_cast<size_t>(std::min(kLanes, count - i)) * sizeof(float);
    Floats value{};
    if (bytes == sizeof(Floats)) {
      std::memcpy(&value, x + i, sizeof(Floats));
      value *= mask;  // a product, as in ATen: infinities become NaN
      std::memcpy(y + i, &value, sizeof(Floats));
    } else {
      std::memcpy(&value, x + i, bytes);
      value *= mask;
      std::memcpy(y + i, &value, bytes);
    }
  }
}

}  // namespace wide::dropout_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {

namespace dropout_rows {

WIDE_DISPATCHED(void, drop,
                (float* y, const float* x, int64_t count, uint64_t seed, uint32_t keep,
                 float scale),
                y, x, count, seed, keep, scale)

}  // namespace dropout_rows

namespace {

using at::Tensor;

constexpr int64_t kBlock = 4096;  // elements drawn with one state

Tensor& dropout_out(const Tensor& x, double p, Tensor& out) {
  TORCH_CHECK(p > 0 && p < 1, "wide::dropout: p ", p, ", expected between 0 and 1");
  TORCH_CHECK(out.is_contiguous() && out.numel() == x.numel(), "wide::dropout: out ", out.sizes(),
              " is not a contiguous ", x.sizes());
  uint64_t seed = 0;
  {
    auto* generator = at::get_generator_or_default<at::CPUGeneratorImpl>(
        std::nullopt, at::detail::getDefaultCPUGenerator());
    const std::lock_guard<std::mutex> lock(generator->mutex_);
    seed = generator->random64();
  }
  const Tensor dense = x.contiguous();
  const float* px = dense.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  const auto keep =
      static_cast<uint32_t>(std::min(std::nearbyint((1 - p) * 4294967296.0), 4294967295.0));
  const auto scale = static_cast<float>(1 / (1 - p));
  const int64_t blocks = (x.numel() + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint64_t own = seed ^ (static_cast<uint64_t>(b) * 0xd1342543de82ef95ULL);
      dropout_rows::drop(py + b * kBlock, px + b * kBlock, std::min(kBlock, x.numel() - b * kBlock),
                         own, keep, scale);
    }
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(m, "dropout", "Tensor x, float p", kernels::like_first, dropout_out,
                               {.tags = {at::Tag::nondeterministic_seeded}});
}

}  // namespace

Tensor dropout(const Tensor& x, double p) { return kernels::call("dropout", {x, p}); }

}  // namespace wide
#endif
