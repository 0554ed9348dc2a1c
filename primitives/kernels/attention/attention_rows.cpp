#include "primitives/kernels/attention/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/attention/attention_rows.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::attention_rows::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

void softmax(const Rows& rows) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float none = -std::numeric_limits<float>::infinity();
  const V scale = vm::set(rows.scale), nothing = vm::set(none);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* x = rows.scores + r * rows.stride;
    const int64_t columns =
        rows.first < 0 ? rows.columns : std::min(rows.columns, rows.first + r + 1);
    const int64_t whole = columns / lanes * lanes;
    const auto own = hn::FirstN(d, static_cast<size_t>(columns - whole));
    // Lanes past the last column are -inf.
    const auto scaled = [&](int64_t i) {
      const V all = hn::Mul(hn::LoadU(d, x + i), scale);
      return i < whole ? all : hn::IfThenElse(own, all, nothing);
    };
    V most = nothing;
    for (int64_t i = 0; i < columns; i += lanes) most = hn::Max(most, scaled(i));
    most = hn::MaxOfLanes(d, most);  // NaN lost here reappears in the sum
    if (rows.empty_is_zero && hn::GetLane(most) == none &&
        std::all_of(x, x + columns, [&](float score) { return score == none; })) {
      std::fill(x, x + rows.columns, 0.0F);
      continue;
    }
    V sum = hn::Zero(d);
    for (int64_t i = 0; i < columns; i += lanes) {
      const V e = vm::exp_below(hn::Sub(scaled(i), most));
      hn::StoreU(e, d, x + i);
      sum = hn::Add(sum, e);
    }
    const V share = hn::Div(vm::set(1.0F), hn::SumOfLanes(d, sum));
    int64_t i = 0;
    for (; i < columns; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), share), d, x + i);
    for (; i < rows.columns; i += lanes) hn::StoreU(hn::Zero(d), d, x + i);
  }
}

void add_block(const BlockRows& rows) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float none = -std::numeric_limits<float>::infinity();
  const V scale = vm::set(rows.scale), nothing = vm::set(none);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* x = rows.scores + r * rows.stride;
    const int64_t columns =
        rows.causal ? std::clamp<int64_t>(rows.first + r + 1, 0, rows.columns) : rows.columns;
    const int64_t whole = columns / lanes * lanes;
    const auto own = hn::FirstN(d, static_cast<size_t>(columns - whole));
    const auto scaled = [&](int64_t i) {
      const V all = hn::Mul(hn::LoadU(d, x + i), scale);
      return i < whole ? all : hn::IfThenElse(own, all, nothing);
    };
    V greatest = vm::set(rows.most[r]);
    for (int64_t i = 0; i < columns; i += lanes) greatest = hn::Max(greatest, scaled(i));
    const float most = hn::GetLane(hn::MaxOfLanes(d, greatest));
    // If no score has counted yet, subtract 0, as -inf - -inf is NaN.
    const float to = most == none ? 0.0F : most;
    rows.shrunk[r] = rows.most[r] == most ? 1.0F : std::exp(rows.most[r] - to);
    rows.most[r] = most;
    V sum = hn::Zero(d);
    int64_t i = 0;
    for (; i < columns; i += lanes) {
      const V e = vm::exp_below(hn::Sub(scaled(i), vm::set(to)));
      hn::StoreU(e, d, x + i);
      sum = hn::Add(sum, e);
    }
    for (; i < rows.columns; i += lanes) hn::StoreU(hn::Zero(d), d, x + i);
    rows.sum[r] = rows.sum[r] * rows.shrunk[r] + hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

/// Plain loops, which compilers vectorise as well.
void mask(const MaskedRows& rows) {
  const float none = -std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < rows.count; ++r) {
    float* x = rows.scores + r * rows.stride;
    if (rows.added != nullptr) {
      const float* added = rows.added + r * rows.mask_stride;
      for (int64_t i = 0; i < rows.columns; ++i) x[i] = x[i] * rows.scale + added[i];
    } else {
      const bool* counts = rows.counts + r * rows.mask_stride;
      for (int64_t i = 0; i < rows.columns; ++i) x[i] = counts[i] ? x[i] * rows.scale : none;
    }
  }
}

void shares_and_gradients(const BackwardRows& rows) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows.count; ++r) {
    float *x = rows.shares + r * rows.stride, *y = rows.gradients + r * rows.stride;
    const int64_t from =
        rows.causal ? std::clamp<int64_t>(rows.first + r, 0, rows.columns) : int64_t{0};
    int64_t i = 0;
    for (; i + lanes <= from; i += lanes) {
      hn::StoreU(hn::Zero(d), d, x + i);
      hn::StoreU(hn::Zero(d), d, y + i);
    }
    for (; i < rows.columns; i += lanes) {
      // A share is at most 1. Rounded sums of large scores may say otherwise; NaN stays NaN.
      const V log_share = hn::LoadU(d, x + i);
      V share = vm::exp_below(hn::IfThenZeroElse(hn::Gt(log_share, hn::Zero(d)), log_share));
      V gradient = hn::Mul(share, hn::LoadU(d, y + i));
      if (i < from) {
        const auto before = hn::FirstN(d, static_cast<size_t>(from - i));
        share = hn::IfThenZeroElse(before, share);
        gradient = hn::IfThenZeroElse(before, gradient);
      }
      hn::StoreU(share, d, x + i);
      hn::StoreU(gradient, d, y + i);
    }
  }
}

}  // namespace wide::attention_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::attention_rows {

WIDE_DISPATCHED(void, softmax, (const Rows& rows), rows)
WIDE_DISPATCHED(void, mask, (const MaskedRows& rows), rows)
WIDE_DISPATCHED(void, add_block, (const BlockRows& rows), rows)
WIDE_DISPATCHED(void, shares_and_gradients, (const BackwardRows& rows), rows)

}  // namespace wide::attention_rows
#endif
