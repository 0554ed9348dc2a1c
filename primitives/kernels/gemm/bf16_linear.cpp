#include "primitives/kernels/gemm/bf16_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <vector>

#include "engine/lower/plan/operator_traits.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/pointwise/activations.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/thread_memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/gemm/bf16_linear.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::bf16_rows::HWY_NAMESPACE {

void widen(const uint16_t* from, float* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = __builtin_bit_cast(float, uint32_t{from[i]} << 16U);
}

/// Rounds float32 to bfloat16, to the nearest, ties to even; NaN stays NaN.
void round_off(const float* from, uint16_t* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = __builtin_bit_cast(uint32_t, from[i]);
    const uint32_t nearest = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    to[i] = static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FC0U : nearest);
  }
}

}  // namespace wide::bf16_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {

namespace bf16_rows {

WIDE_DISPATCHED(void, widen, (const uint16_t* from, float* to, int64_t count), from, to, count)
WIDE_DISPATCHED(void, round_off, (const float* from, uint16_t* to, int64_t count), from, to, count)

}  // namespace bf16_rows

namespace {

using at::BFloat16;
using at::Tensor;

constexpr int64_t kRows = 32;  // rows of a job: their sums stay in the inner caches

const uint16_t* bits(const Tensor& t) {
  return reinterpret_cast<const uint16_t*>(t.const_data_ptr<BFloat16>());
}

Tensor& bf16_linear_out(const Tensor& x, const Tensor& pairs, const std::optional<Tensor>& bias,
                        c10::string_view activation, Tensor& out) {
  const int64_t n = x.size(0), m = x.size(1), o = pairs.size(2), k = 2 * pairs.size(1);
  TORCH_CHECK(x.dim() == 3 && pairs.is_contiguous() && pairs.size(0) == n &&
                  (x.size(2) + 1) / 2 == pairs.size(1) &&
                  (!bias || bias->sizes() == c10::IntArrayRef({n, o})),
              "wide::bf16_linear: x ", x.sizes(), " and pairs ", pairs.sizes(), " do not fit");
  TORCH_CHECK(out.is_contiguous() && out.numel() == n * m * o, "wide::bf16_linear: out ",
              out.sizes(), " is not a contiguous [N, M, O]");
  // Pads x with a column of zeros if K is odd.
  const Tensor even = x.size(2) == k ? x : at::constant_pad_nd(x, {0, k - x.size(2)});
  const Tensor rows = even.stride(2) == 1 && even.stride(1) >= k ? even : even.contiguous();
  const Tensor offsets = bias ? bias->contiguous() : Tensor();
  const chains::Code* activate = activations::find(activation);
  const auto* px = rows.const_data_ptr<BFloat16>();
  const auto* pw = pairs.const_data_ptr<BFloat16>();
  const uint16_t* pb = bias ? bits(offsets) : nullptr;
  auto* po = reinterpret_cast<uint16_t*>(out.mutable_data_ptr<BFloat16>());
  const int64_t blocks = (m + kRows - 1) / kRows;
  at::parallel_for(0, n * blocks, 1, [&](int64_t begin, int64_t end) {
    float* sums = kernels::thread_memory<BFloat16>(std::min(m, kRows) * o);
    for (int64_t job = begin; job < end; ++job) {
      const int64_t i = job / blocks, row = job % blocks * kRows, count = std::min(kRows, m - row);
      if (pb != nullptr) {
        bf16_rows::widen(pb + i * o, sums, o);
        for (int64_t r = 1; r < count; ++r) std::copy_n(sums, o, sums + r * o);
      }
      at::native::cpublas::brgemm(count, o, k, rows.stride(1), o, o, pb != nullptr,
                                  px + i * rows.stride(0) + row * rows.stride(1), pw + i * k * o,
                                  sums, /*is_vnni=*/true);
      if (activate != nullptr) activations::run(*activate, sums, count * o);
      bf16_rows::round_off(sums, po + (i * m + row) * o, count * o);
    }
  });
  return out;
}

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::bf16_linear", .absorbs = activations::names()});

/// Whether this processor has instructions for bfloat16 products.
bool has_instructions() {
  const auto known = at::cpu::get_cpu_capabilities();
  const auto has = [&](const char* name) {
    const auto found = known.find(name);
    return found != known.end() && found->second.toBool();
  };
  return has("avx512_bf16") || has("amx_bf16");
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  const std::vector<at::ScalarType> none, bfloat16{at::kBFloat16};
  kernels::add_filled_operator(
      m, "bf16_linear", "Tensor x, Tensor pairs, Tensor? bias, str activation",
      [](const Tensor& x, const Tensor& pairs, const auto&...) {
        return at::empty({x.size(0), x.size(1), pairs.size(2)}, x.options());
      },
      bf16_linear_out, {.dtypes = has_instructions() ? bfloat16 : none});
}

}  // namespace

Tensor pack_pairs(const Tensor& weight) {
  const int64_t n = weight.size(0), k = weight.size(1), o = weight.size(2), pairs = (k + 1) / 2;
  const Tensor even = k % 2 == 0 ? weight : at::constant_pad_nd(weight, {0, 0, 0, 1});
  return even.reshape({n, pairs, 2, o}).transpose(2, 3).contiguous();
}

Tensor bf16_linear(const Tensor& x, const Tensor& pairs, const std::optional<Tensor>& bias) {
  return kernels::call("bf16_linear", {x, pairs, bias, "none"});
}

}  // namespace wide
#endif
