#include "primitives/kernels/pointwise/chain_block.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/pointwise/chain_block.cpp"
#include "primitives/kernels/highway.h"
// Included once for each instruction set.
#include "primitives/kernels/pointwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace wide::chains::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = wide::vector_math::HWY_NAMESPACE;
using vm::D;
using vm::M;
using vm::V;

HWY_INLINE V zero() { return hn::Zero(D()); }
HWY_INLINE V truth(M mask) { return hn::IfThenElseZero(mask, vm::set(1.0F)); }
// Highway's Ne is false for NaN under some instruction sets.
HWY_INLINE M differs(V a, V b) { return hn::Not(hn::Eq(a, b)); }
HWY_INLINE M is_true(V x) { return differs(x, zero()); }

struct Args {
  float* to;
  const float* from[3];
  const float* numbers;
  size_t count;
};

/// Applies `function` to `operands` operands, vector by vector. The last elements are copied to a
/// vector, so that all are computed alike and nothing beyond the operands is accessed.
template <int operands, class Function>
HWY_INLINE void each(const Args& args, const Function& function) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto apply = [&](const float* a, const float* b, const float* c, float* to) HWY_ATTR {
    if constexpr (operands == 1) hn::StoreU(function(hn::LoadU(d, a)), d, to);
    if constexpr (operands == 2) hn::StoreU(function(hn::LoadU(d, a), hn::LoadU(d, b)), d, to);
    if constexpr (operands == 3)
      hn::StoreU(function(hn::LoadU(d, a), hn::LoadU(d, b), hn::LoadU(d, c)), d, to);
  };
  const float *a = args.from[0], *b = operands > 1 ? args.from[1] : a,
              *c = operands > 2 ? args.from[2] : a;
  size_t i = 0;
#pragma GCC unroll 4
  for (; i + lanes <= args.count; i += lanes) apply(a + i, b + i, c + i, args.to + i);
  if (i == args.count) return;
  HWY_ALIGN float rest[4][hn::MaxLanes(D())] = {};
  const size_t bytes = (args.count - i) * sizeof(float);
  std::memcpy(rest[0], a + i, bytes);
  if (operands > 1) std::memcpy(rest[1], b + i, bytes);
  if (operands > 2) std::memcpy(rest[2], c + i, bytes);
  apply(rest[0], rest[1], rest[2], rest[3]);
  std::memcpy(args.to + i, rest[3], bytes);
}

#define WIDE_UNARY(NAME, EXPRESSION) \
  case Op::NAME:                     \
    return each<1>(args, [](V x) HWY_ATTR { return EXPRESSION; })
#define WIDE_BINARY(NAME, EXPRESSION) \
  case Op::NAME:                      \
    return each<2>(args, [](V a, V b) HWY_ATTR { return EXPRESSION; })
// Instructions with numbers after the operand.
#define WIDE_NUMBERS(NAME, EXPRESSION)                                                         \
  case Op::NAME: {                                                                             \
    const V p = vm::set(args.numbers[0]), q = vm::set(args.numbers[1]);                        \
    const V r = vm::set(args.numbers[2]);                                                      \
    return each<1>(args,                                                                       \
                   [p, q, r](V x) HWY_ATTR { return (void)p, (void)q, (void)r, EXPRESSION; }); \
  }

void run_instruction(Op op, const Args& args) {
  switch (op) {
    WIDE_UNARY(copy, x);
    WIDE_UNARY(neg, hn::Neg(x));
    WIDE_UNARY(abs, hn::Abs(x));
    WIDE_UNARY(square, hn::Mul(x, x));
    WIDE_UNARY(sqrt, hn::Sqrt(x));
    WIDE_UNARY(rsqrt, hn::Div(vm::set(1.0F), hn::Sqrt(x)));
    WIDE_UNARY(reciprocal, hn::Div(vm::set(1.0F), x));
    WIDE_UNARY(exp, vm::exp(x));
    WIDE_UNARY(expm1, vm::expm1(x));
    WIDE_UNARY(log, vm::log(x));
    WIDE_UNARY(log1p, vm::log1p(x));
    WIDE_UNARY(tanh, vm::tanh(x));
    WIDE_UNARY(sigmoid, vm::sigmoid(x));
    WIDE_UNARY(silu, vm::silu(x));
    WIDE_UNARY(relu, vm::blend(hn::Lt(x, zero()), zero(), x));
    WIDE_UNARY(erf, vm::erf(x));
    WIDE_UNARY(gelu, vm::gelu(x));
    WIDE_UNARY(gelu_tanh, vm::gelu_tanh(x));
    WIDE_UNARY(mish, vm::mish(x));
    WIDE_UNARY(hardsigmoid, vm::hard_sigmoid(x));
    WIDE_UNARY(hardswish, vm::hard_swish(x));
    WIDE_UNARY(gelu_slope, vm::gelu_slope(x));
    WIDE_UNARY(gelu_tanh_slope, vm::gelu_tanh_slope(x));
    WIDE_UNARY(silu_slope, vm::silu_slope(x));
    WIDE_UNARY(sin, vm::sin(x));
    WIDE_UNARY(cos, vm::cos(x));
    WIDE_UNARY(floor, hn::Floor(x));
    WIDE_UNARY(ceil, hn::Ceil(x));
    WIDE_UNARY(trunc, hn::Trunc(x));
    WIDE_UNARY(round, hn::Round(x));
    WIDE_UNARY(sign, hn::Sub(truth(hn::Lt(zero(), x)), truth(hn::Lt(x, zero()))));
    WIDE_UNARY(logical_not, truth(hn::Eq(x, zero())));
    WIDE_NUMBERS(elu, vm::elu(x, p, q, r));
    WIDE_NUMBERS(elu_slope, vm::elu_slope(x, p, q, r));
    WIDE_NUMBERS(leaky_relu, vm::blend(hn::Gt(x, zero()), x, hn::Mul(x, p)));
    WIDE_NUMBERS(softplus, vm::softplus(x, p, q));
    WIDE_NUMBERS(threshold, vm::blend(hn::Le(x, p), q, x));
    // Comparisons with NaN are false, so NaN stays.
    case Op::clamp: {
      const V low = vm::set(args.numbers[0]), high = vm::set(args.numbers[1]);
      return each<1>(args, [low, high](V x) HWY_ATTR {
        const V raised = vm::blend(hn::Lt(x, low), low, x);
        return vm::blend(hn::Gt(raised, high), high, raised);
      });
    }
      WIDE_BINARY(add, hn::Add(a, b));
      WIDE_BINARY(sub, hn::Sub(a, b));
      WIDE_BINARY(mul, hn::Mul(a, b));
      WIDE_BINARY(div, hn::Div(a, b));
      // NaN if either is: `a` by the test, `b` as comparisons with NaN are false.
      WIDE_BINARY(maximum, vm::blend(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b));
      WIDE_BINARY(minimum, vm::blend(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b));
      WIDE_BINARY(eq, truth(hn::Eq(a, b)));
      WIDE_BINARY(ne, truth(differs(a, b)));
      WIDE_BINARY(lt, truth(hn::Lt(a, b)));
      WIDE_BINARY(le, truth(hn::Le(a, b)));
      WIDE_BINARY(gt, truth(hn::Gt(a, b)));
      WIDE_BINARY(ge, truth(hn::Ge(a, b)));
      WIDE_BINARY(logical_and, truth(hn::And(is_true(a), is_true(b))));
      WIDE_BINARY(logical_or, truth(hn::Or(is_true(a), is_true(b))));
    case Op::where:
      return each<3>(args, [](V c, V a, V b) HWY_ATTR { return vm::blend(is_true(c), a, b); });
  }
}

void run_block(const Code& code, float* const* slots, size_t count) {
  for (const Instruction& i : code.instructions)
    run_instruction(
        i.op,
        {slots[i.to], {slots[i.from[0]], slots[i.from[1]], slots[i.from[2]]}, i.numbers, count});
}

void from_truth(const uint8_t* from, float* to, size_t count) {
  const hn::Rebind<uint8_t, D> bytes;
  const vm::DI integers;
  size_t i = 0;
  for (; i + hn::Lanes(D()) <= count; i += hn::Lanes(D()))
    hn::StoreU(hn::ConvertTo(D(), hn::PromoteTo(integers, hn::LoadU(bytes, from + i))), D(),
               to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void fill(float* to, float value, size_t count) {
  const V v = vm::set(value);
  size_t i = 0;
  for (; i + hn::Lanes(D()) <= count; i += hn::Lanes(D())) hn::StoreU(v, D(), to + i);
  for (; i < count; ++i) to[i] = value;
}

#undef WIDE_UNARY
#undef WIDE_BINARY
#undef WIDE_NUMBERS

}  // namespace wide::chains::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide::chains {

WIDE_DISPATCHED(void, run_block, (const Code& code, float* const* slots, size_t count), code, slots,
                count)
WIDE_DISPATCHED(void, from_truth, (const uint8_t* from, float* to, size_t count), from, to, count)
WIDE_DISPATCHED(void, fill, (float* to, float value, size_t count), to, value, count)

}  // namespace wide::chains
#endif
