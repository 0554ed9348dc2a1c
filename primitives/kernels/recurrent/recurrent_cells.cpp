#include "primitives/kernels/recurrent/recurrent_cells.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/recurrent/recurrent_cells.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::recurrent_cells::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::V;

/// Clamps to [-limit, limit]; NaN stays NaN.
HWY_INLINE V clamped(V x, float limit) {
  const V low = vm::blend(hn::Lt(x, vm::set(-limit)), vm::set(-limit), x);
  return vm::blend(hn::Gt(low, vm::set(limit)), vm::set(limit), low);
}

/// 1 + e^-x, the reciprocal of the sigmoid.
HWY_INLINE V one_plus_exponential(V x) {
  const vm::Split e = vm::split_exponential(hn::Neg(clamped(x, 87.0F)));
  return hn::Add(vm::set(1.0F), vm::together(e));
}

HWY_INLINE V sigmoid(V x) { return hn::Div(vm::set(1.0F), one_plus_exponential(x)); }

/// e^2x - 1 without cancellation near zero: tanh x is this divided by (this + 2). Beyond 10 tanh
/// rounds to 1.
HWY_INLINE V tanh_numerator(V x) {
  const vm::Split e = vm::split_exponential(clamped(hn::Add(x, x), 20.0F));
  return hn::MulAdd(e.scale, e.rest, hn::Sub(e.scale, vm::set(1.0F)));
}

HWY_INLINE V tangent(V x) {
  const V e = tanh_numerator(x);
  return hn::Div(e, hn::Add(e, vm::set(2.0F)));
}

/// sigmoid(gate) tanh(x) with one division.
HWY_INLINE V gated_tangent(V gate, V x) {
  const V e = tanh_numerator(x);
  return hn::Div(e, hn::Mul(hn::Add(e, vm::set(2.0F)), one_plus_exponential(gate)));
}

/// Some units of one sequence: one vector of them, or the last `rest` ones.
struct Units {
  const float* gates;
  float *h, *c, *y;
  int64_t width, rest;

  HWY_INLINE V read(const float* from) const {
    return rest == 0 ? hn::LoadU(D(), from) : vm::load_some(from, rest, hn::Zero(D()));
  }
  HWY_INLINE void write(V v, float* to) const {
    if (rest == 0)
      hn::StoreU(v, D(), to);
    else
      vm::store_some(v, to, rest);
  }
  HWY_INLINE V gate(int64_t k) const { return read(gates + k * width); }
  HWY_INLINE void give(V state) const {
    write(state, h);
    write(state, y);
  }
};

template <class Cell>
HWY_INLINE void each(const Step& s, const Cell& cell) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t b = 0; b < s.count; ++b) {
    const float* gates = s.gates + b * s.gates_stride;
    float *h = s.h + b * s.width, *c = s.c == nullptr ? h : s.c + b * s.width;
    float* y = s.y + b * s.y_stride;
    int64_t j = 0;
    for (; j + lanes <= s.width; j += lanes)
      cell(Units{gates + j, h + j, c + j, y + j, s.width, 0});
    if (j < s.width) cell(Units{gates + j, h + j, c + j, y + j, s.width, s.width - j});
  }
}

void lstm(const Step& step) {
  each(step, [](const Units& u) HWY_ATTR {
    const V kept = hn::Mul(u.read(u.c), sigmoid(u.gate(1)));
    const V next = hn::Add(kept, gated_tangent(u.gate(0), u.gate(2)));
    u.write(next, u.c);
    u.give(gated_tangent(u.gate(3), next));
  });
}

void gru(const Step& step) {
  each(step, [](const Units& u) HWY_ATTR {
    const V candidate = tangent(hn::MulAdd(sigmoid(u.gate(1)), u.gate(3), u.gate(0)));
    u.give(hn::MulAdd(sigmoid(u.gate(2)), hn::Sub(u.read(u.h), candidate), candidate));
  });
}

void rnn_tanh(const Step& step) {
  each(step, [](const Units& u) HWY_ATTR { u.give(tangent(u.gate(0))); });
}

void rnn_relu(const Step& step) {
  each(step, [](const Units& u) HWY_ATTR {
    const V x = u.gate(0);
    u.give(vm::blend(hn::Lt(x, hn::Zero(D())), hn::Zero(D()), x));
  });
}

}  // namespace wide::recurrent_cells::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::recurrent_cells {

WIDE_DISPATCHED(void, lstm, (const Step& step), step)
WIDE_DISPATCHED(void, gru, (const Step& step), step)
WIDE_DISPATCHED(void, rnn_tanh, (const Step& step), step)
WIDE_DISPATCHED(void, rnn_relu, (const Step& step), step)

}  // namespace wide::recurrent_cells
#endif
