// Functions of float vectors, for kernels under Highway. Included after
// primitives/kernels/highway.h and, like it, once for every instruction set.
//
// Over all floats, NaN, infinities and denormals included, a result is at most this many units in
// the last place from the true one; NaN stays NaN, and what ATen makes of infinities is made of
// them here. Held to it by tests/primitives/kernels/chain_test.cpp under every instruction set.
//
//   exp, log, log1p, expm1, erf, sin, cos 2 · tanh, sigmoid, elu, softplus, hard_sigmoid,
//   hard_swish 3 · silu 4, mish 5, and 1e-43 below 2e-36
//   gelu 4, or 2.5e-7 |x|; gelu_tanh 4, or 1.2e-7 |x|; elu_slope 3
//   gelu_slope, gelu_tanh_slope, silu_slope 4, or 5e-7 of the greater of one and |x|

#if defined(WIDE_VECTOR_MATH_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef WIDE_VECTOR_MATH_TOGGLE
#undef WIDE_VECTOR_MATH_TOGGLE
#else
#define WIDE_VECTOR_MATH_TOGGLE
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace wide::vector_math::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using M = hn::Mask<D>;

HWY_INLINE V set(float x) { return hn::Set(D(), x); }
HWY_INLINE V blend(M where, V yes, V no) { return hn::IfThenElse(where, yes, no); }

/// The first `count` elements, fewer than there are lanes, and `others` in the lanes behind them.
/// Reads nothing beyond them.
HWY_INLINE V load_some(const float* from, int64_t count, V others) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(others, D(), lanes);
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(D(), lanes);
#else
  const M own = hn::FirstN(D(), static_cast<size_t>(count));
  return blend(own, hn::MaskedLoad(own, D(), from), others);
#endif
}

HWY_INLINE void store_some(V v, float* to, int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, D(), lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
#else
  hn::BlendedStore(v, hn::FirstN(D(), static_cast<size_t>(count)), D(), to);
#endif
}

/// a x + b, c x + a x^2 ...: coefficients from the highest power down.
HWY_INLINE V polynomial(V /*x*/, V sum) { return sum; }
template <class... Rest>
HWY_INLINE V polynomial(V x, V sum, float next, Rest... rest) {
  return polynomial(x, hn::MulAdd(sum, x, set(next)), rest...);
}

/// e^x = 2^n (1 + rest) with |rest| < 0.42, for |x| < 1e6; the rest is within 1.6e-8 of it,
/// relative, and NaN for NaN. The scale is 2^(n + shift) where that is a normal float.
struct Split {
  V scale, rest;
  VI n;
};

template <int shift = 0>
HWY_INLINE Split split_exponential(V x) {
  // Adding 1.5 * 2^23 + bias rounds and puts the biased exponent into the low bits; shifting these
  // to the exponent's place drops the others.
  constexpr int kExponent = 127 + shift;
  const V round = set(12582912.0F + kExponent);
  const V shifted = hn::MulAdd(x, set(1.44269504F), round);
  const V n = hn::Sub(shifted, round);
  V r = hn::NegMulAdd(n, set(0.693359375F), x);
  r = hn::MulAdd(n, set(2.12194440e-4F), r);
  const V p = polynomial(r, set(1.394633436575532e-3F), 8.366525173187256e-3F,
                         4.166628420352936e-2F, 1.666654348373413e-1F, 0.5F);
  const VI bits = hn::BitCast(DI(), shifted);
  return {hn::BitCast(D(), hn::ShiftLeft<23>(bits)), hn::MulAdd(p, hn::Mul(r, r), r),
          hn::Sub(bits, hn::Set(DI(), 0x4B400000 + kExponent))};
}

/// e^x times 2^shift.
HWY_INLINE V together(const Split& e) { return hn::MulAdd(e.scale, e.rest, e.scale); }

/// e^x for -104 <= x <= 89, outside of which it is zero or infinite.
HWY_INLINE V exp_inside(V x) {
  const Split e = split_exponential(x);
  // In two steps, as 2^n itself may be no normal float.
  const VI half = hn::ShiftRight<1>(e.n);
  const auto power_of_two = [](VI n) HWY_ATTR {
    return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127))));
  };
  return hn::Mul(together({power_of_two(half), e.rest, half}), power_of_two(hn::Sub(e.n, half)));
}

/// e^x for -104 <= x <= 43, faster as 2^(n + 64) is a normal float. Denormal results are rounded by
/// the last product.
HWY_INLINE V exp_to_43(V x) {
  return hn::Mul(together(split_exponential<64>(x)), set(5.42101086e-20F));
}

/// e^x for x <= 0; zero instead of denormals, which are slow. NaN stays NaN.
HWY_INLINE V exp_below(V x) {
  return hn::IfThenElseZero(hn::Not(hn::Lt(x, set(-87.0F))), together(split_exponential(x)));
}

/// min(x, high); NaN for NaN. The instruction set decides which operand a minimum with NaN returns:
/// on x86 the second.
HWY_INLINE V at_most(V x, float high) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(set(high), x);
#else
  return blend(hn::IsNaN(x), x, hn::Min(x, set(high)));
#endif
}

HWY_INLINE V clamp(V x, float low, float high) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(set(high), hn::Max(set(low), x));
#else
  return blend(hn::IsNaN(x), x, hn::Min(hn::Max(x, set(low)), set(high)));
#endif
}

HWY_INLINE V exp(V x) { return exp_inside(clamp(x, -104.0F, 89.0F)); }

HWY_INLINE V expm1(V x) {
  const Split e = split_exponential<-1>(clamp(x, -18.0F, 89.0F));  // 2^128 is no float
  const V y = hn::MulAdd(e.scale, e.rest, hn::Sub(e.scale, set(0.5F)));
  // NaN stays NaN.
  return blend(hn::Gt(hn::Abs(x), set(1e-8F)), hn::Add(y, y), x);
}

/// ln x of a normal, positive x.
HWY_INLINE V log_inside(V x, V exponent) {
  const VI bits = hn::BitCast(DI(), x);
  const VI e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(DI(), 0x3F3504F3)));  // of sqrt(1/2)
  const V f = hn::Sub(hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(e))), set(1.0F));
  const V n = hn::Add(hn::ConvertTo(D(), e), exponent);
  const V z = hn::Mul(f, f);
  V y = polynomial(f, set(7.0376836292e-2F), -1.1514610310e-1F, 1.1676998740e-1F, -1.2420140846e-1F,
                   1.4249322787e-1F, -1.6668057665e-1F, 2.0000714765e-1F, -2.4999993993e-1F,
                   3.3333331174e-1F);
  y = hn::Mul(hn::Mul(y, f), z);
  y = hn::NegMulAdd(n, set(2.12194440e-4F), y);
  y = hn::NegMulAdd(set(0.5F), z, y);
  return hn::MulAdd(n, set(0.693359375F), hn::Add(f, y));
}

HWY_INLINE V log(V x) {
  const M small = hn::Lt(x, set(1.17549435e-38F));  // denormals, and what has no logarithm
  const V y = log_inside(blend(small, hn::Mul(x, set(8388608.0F)), x),
                         hn::IfThenElseZero(small, set(-23.0F)));
  const float infinity = std::numeric_limits<float>::infinity();
  const V odd =
      blend(hn::Eq(x, hn::Zero(D())), set(-infinity), set(std::numeric_limits<float>::quiet_NaN()));
  const V right = blend(hn::Eq(x, set(infinity)), x, y);
  return blend(hn::Gt(x, hn::Zero(D())), right, odd);
}

HWY_INLINE V log1p(V x) {
  const V u = hn::Add(x, set(1.0F));
  // The rounding error of 1 + x, times the derivative; none if x is infinite or -1.
  const V lost = hn::Div(hn::Sub(x, hn::Sub(u, set(1.0F))), u);
  const M plain = hn::And(hn::Gt(u, hn::Zero(D())), hn::Lt(u, set(1e10F)));
  const V y = hn::Add(log(u), hn::IfThenElseZero(plain, lost));
  return blend(hn::Gt(hn::Abs(x), set(1e-8F)), y, x);
}

HWY_INLINE V tanh(V x) {
  // e^-2|x| - 1 without cancellation near zero; beyond 10 tanh rounds to 1.
  const Split e = split_exponential(hn::Mul(set(-2.0F), at_most(hn::Abs(x), 10.0F)));
  const V t = hn::MulAdd(e.scale, e.rest, hn::Sub(e.scale, set(1.0F)));
  return hn::CopySign(hn::Div(t, hn::Add(t, set(2.0F))), x);
}

/// 1 / (1 + e^-x), both parts times 2^-64, as e^104 overflows but its reciprocal does not.
HWY_INLINE V sigmoid(V x) {
  const Split e = split_exponential<-64>(hn::Neg(clamp(x, -104.0F, 43.0F)));
  const V one = set(5.42101086e-20F);
  return hn::Div(one, hn::MulAdd(e.scale, e.rest, hn::Add(e.scale, one)));
}

HWY_INLINE V silu(V x) { return hn::Mul(x, sigmoid(x)); }

/// erf |x| / |x| - 1 for |x| < 0.93.
HWY_INLINE V erf_near(V square) {
  return polynomial(square, set(-5.96761703e-4F), 4.99119423e-3F, -2.67681349e-2F, 1.12819925e-1F,
                    -3.76125336e-1F, 1.28379166e-1F);
}

/// 1 - erf t for 0.93 < t < 10 (N. Juffa's polynomials, as above).
HWY_INLINE V erfc_far(V t) {
  const V r = polynomial(t, set(-1.72853470e-5F), 3.83197126e-4F, -3.88396438e-3F, 2.42546219e-2F,
                         -1.06777877e-1F, -6.34846687e-1F, -1.28717512e-1F);
  return exp_to_43(hn::Max(hn::NegMulAdd(hn::Neg(r), t, hn::Neg(t)), set(-104.0F)));
}

HWY_INLINE V erf(V x) {
  const V t = hn::Min(hn::Abs(x), set(4.0F));
  const V far = hn::CopySignToAbs(hn::Sub(set(1.0F), erfc_far(t)), x);
  const V near = hn::MulAdd(erf_near(hn::Mul(x, x)), x, x);
  return blend(hn::Gt(hn::Abs(x), set(0.927734375F)), far, near);
}

#if HWY_MAX_BYTES == 64
/// The one of sixteen numbers that the last four bits of `n` select.
HWY_INLINE V one_of_sixteen(VI n, const float* each) {
  // Highway's assertions also check the other bits.
  const VI low = HWY_IS_DEBUG_BUILD ? hn::And(n, hn::Set(DI(), 15)) : n;
  return hn::TableLookupLanes(hn::Load(D(), each), hn::IndicesFromVec(D(), low));
}

/// erf(x / sqrt 2) / 2 within 1.1e-7. |x| = (n + u) / 2.75 with n the nearest integer, at most 15,
/// selects one of sixteen polynomials of u (own minimax fit), whose coefficients are in registers.
HWY_INLINE V half_erf_of_root_half(V x) {
  HWY_ALIGN static constexpr float k4[] = {
      7.85344455e-05F,  2.81105720e-04F,  3.98000178e-04F,  3.14993522e-04F,
      1.30268716e-04F,  -2.95603732e-05F, -1.02175567e-04F, -1.00408630e-04F,
      -6.71672242e-05F, -3.48338472e-05F, -1.46872808e-05F, -5.15374677e-06F,
      -1.52544578e-06F, -3.84142879e-07F, -8.27865065e-08F, 0};
  HWY_ALIGN static constexpr float k3[] = {
      -3.23132263e-03F, -2.58317497e-03F, -1.15558680e-03F, 3.25317058e-04F,
      1.22655998e-03F,  1.40422024e-03F,  1.11069845e-03F,  6.87868160e-04F,
      3.49007023e-04F,  1.48290797e-04F,  5.34272804e-05F,  1.64507219e-05F,
      4.35184438e-06F,  9.92783612e-07F,  1.95851896e-07F,  0};
  HWY_ALIGN static constexpr float k2[] = {
      6.08508662e-06F,  -8.97746533e-03F, -1.47247519e-02F, -1.58699397e-02F,
      -1.33206304e-02F, -9.18369554e-03F, -5.32538723e-03F, -2.63037602e-03F,
      -1.11504947e-03F, -4.07654268e-04F, -1.28959058e-04F, -3.53834002e-05F,
      -8.43510952e-06F, -1.74943398e-06F, -3.15982362e-07F, 0};
  HWY_ALIGN static constexpr float k1[] = {
      1.45069540e-01F, 1.35787860e-01F, 1.11358285e-01F, 8.00124481e-02F,
      5.03691733e-02F, 2.77806595e-02F, 1.34241972e-02F, 5.68328472e-03F,
      2.10800790e-03F, 6.85019419e-04F, 1.95023429e-04F, 4.86428180e-05F,
      1.06290136e-05F, 2.03471200e-06F, 3.41225558e-07F, 0};
  HWY_ALIGN static constexpr float k0[] = {
      0.00000000e+00F, 1.41935199e-01F, 2.66470551e-01F, 3.62343550e-01F,
      4.27102447e-01F, 4.65481818e-01F, 4.85438526e-01F, 4.94543225e-01F,
      4.98187602e-01F, 4.99467432e-01F, 4.99861747e-01F, 4.99968320e-01F,
      4.99993593e-01F, 4.99998868e-01F, 4.99999821e-01F, 0.5F};
  const V round = set(12582912.0F), step = set(2.75F);  // as for exponentials
  const V t = hn::Min(hn::Abs(x), set(15 / 2.75F));
  const V shifted = hn::MulAdd(t, step, round);
  const V u = hn::MulSub(t, step, hn::Sub(shifted, round));
  const VI n = hn::BitCast(DI(), shifted);
  V y = hn::MulAdd(one_of_sixteen(n, k4), u, one_of_sixteen(n, k3));
  y = hn::MulAdd(y, u, one_of_sixteen(n, k2));
  y = hn::MulAdd(y, u, one_of_sixteen(n, k1));
  return hn::CopySign(hn::MulAdd(y, u, one_of_sixteen(n, k0)), x);
}
#else
/// erf(x / sqrt 2) / 2 as a quotient up to 4 (Eigen's, its numerator halved), 1/2 beyond.
HWY_INLINE V half_erf_of_root_half(V x) {
  const V limit = set(4.0F), a = hn::Mul(x, set(0.70710678F));
  const V inside = hn::Min(hn::Max(a, hn::Neg(limit)), limit), z = hn::Mul(inside, inside);
  const V p = polynomial(z, set(-1.36307112900653e-10F), 1.38534071247951e-8F,
                         -1.05051201041254e-6F, -2.84625319731173e-5F, -3.674953151634275e-4F,
                         -1.477299904270125e-3F, -8.04801666312075e-3F);
  const V q = polynomial(z, set(-1.45660718464996e-5F), -2.13374055278905e-4F,
                         -1.68282697438203e-3F, -7.37332916720468e-3F, -1.42647390514189e-2F);
  return blend(hn::Lt(hn::Abs(a), limit), hn::Div(hn::Mul(inside, p), q),
               hn::CopySign(set(0.5F), x));
}
#endif

/// The normal distribution's Phi; undefined for NaN.
HWY_INLINE V normal_cdf(V x) { return hn::Add(half_erf_of_root_half(x), set(0.5F)); }

HWY_INLINE V gelu(V x) { return hn::Mul(x, normal_cdf(x)); }

/// The derivative of gelu: Phi(x) + x phi(x).
HWY_INLINE V gelu_slope(V x) {
  const V inside = clamp(x, -14.0F, 14.0F);  // beyond it phi is zero
  const V phi = hn::Mul(set(0.398942280F), exp_to_43(hn::Mul(hn::Mul(inside, inside), set(-0.5F))));
  return hn::MulAdd(inside, phi, normal_cdf(x));
}

HWY_INLINE V gelu_tanh(V x) {
  const V slope = hn::MulAdd(hn::Mul(x, x), set(0.071354816F), set(1.595769122F));
  return hn::Mul(x, sigmoid(hn::Mul(x, slope)));
}

/// The derivative of gelu_tanh, x s with s = sigmoid(x slope): s + x s (1 - s) slope'.
HWY_INLINE V gelu_tanh_slope(V x) {
  const V inside = clamp(x, -50.0F, 50.0F), square = hn::Mul(inside, inside);
  const V slope = hn::MulAdd(square, set(0.071354816F), set(1.595769122F));
  const V steeper = hn::MulAdd(square, set(3 * 0.071354816F), set(1.595769122F));
  const V z = hn::Mul(inside, slope), s = sigmoid(z), other = sigmoid(hn::Neg(z));
  return hn::MulAdd(hn::Mul(inside, steeper), hn::Mul(s, other), s);
}

HWY_INLINE V silu_slope(V x) {
  const V inside = clamp(x, -200.0F, 200.0F), s = sigmoid(inside), other = sigmoid(hn::Neg(inside));
  return hn::MulAdd(inside, hn::Mul(s, other), s);
}

/// The derivative of elu.
HWY_INLINE V elu_slope(V x, V alpha, V scale, V input_scale) {
  const V steep = hn::Mul(hn::Mul(alpha, scale), input_scale);
  return blend(hn::Le(x, hn::Zero(D())), hn::Mul(exp(hn::Mul(x, input_scale)), steep), scale);
}

HWY_INLINE V elu(V x, V alpha, V scale, V input_scale) {
  return blend(hn::Gt(x, hn::Zero(D())), hn::Mul(x, scale),
               hn::Mul(expm1(hn::Mul(x, input_scale)), hn::Mul(alpha, scale)));
}

/// ln(1 + e) for 0 <= e <= 1, by an own polynomial fit, with a relative error below 3.4e-8.
HWY_INLINE V log1p_of_fraction(V e) {
  const V p = polynomial(e, set(5.3646583e-3F), -3.0065125e-2F, 7.920345e-2F, -1.3753709e-1F,
                         1.9153611e-1F, -2.4857152e-1F, 3.332132e-1F, -4.9999648e-1F);
  return hn::MulAdd(hn::Mul(e, e), p, e);
}

HWY_INLINE V softplus(V x, V beta, V threshold) {
  const V z = hn::Mul(x, beta), inverse = hn::Div(set(1.0F), beta);
  const V e = exp_to_43(hn::Max(hn::Neg(hn::Abs(z)), set(-104.0F)));
  const V y = hn::Add(hn::Max(z, hn::Zero(D())), log1p_of_fraction(e));
  // NaN stays NaN.
  return blend(hn::Gt(z, threshold), x, hn::Mul(blend(hn::IsNaN(z), z, y), inverse));
}

/// x tanh(softplus x) = x (e^2 + 2e) / (e^2 + 2e + 2).
HWY_INLINE V mish(V x) {
  const V e = exp_to_43(clamp(x, -104.0F, 20.0F));
  const V top = hn::Mul(e, hn::Add(e, set(2.0F)));
  const V y = hn::Mul(x, hn::Div(top, hn::Add(top, set(2.0F))));
  return blend(hn::Gt(x, set(20.0F)), x, y);
}

HWY_INLINE V hard_sigmoid(V x) {
  return hn::Div(clamp(hn::Add(x, set(3.0F)), 0.0F, 6.0F), set(6.0F));
}

HWY_INLINE V hard_swish(V x) {
  // x * (x + 3) would overflow.
  return hn::Mul(x, hard_sigmoid(x));
}

/// sin(x + quarters pi / 2).
HWY_INLINE V sine(V x, int32_t quarters) {
  const V round = set(12582912.0F);
  const V limit = set(8192.0F), inside = hn::Min(hn::Max(x, hn::Neg(limit)), limit);
  const V shifted = hn::MulAdd(inside, set(0.636619772F), round);
  const V n = hn::Sub(shifted, round);
  V r = hn::NegMulAdd(n, set(1.5703125F), inside);
  r = hn::NegMulAdd(n, set(4.837512969970703125e-4F), r);
  r = hn::NegMulAdd(n, set(7.54978995489188216e-8F), r);
  const V z = hn::Mul(r, r);
  const V sin_r = hn::MulAdd(
      hn::Mul(polynomial(z, set(-1.9515295891e-4F), 8.3321608736e-3F, -1.6666654611e-1F), z), r, r);
  const V cos_r = hn::MulAdd(
      polynomial(z, set(2.443315711809948e-5F), -1.388731625493765e-3F, 4.166664568298827e-2F),
      hn::Mul(z, z), hn::NegMulAdd(set(0.5F), z, set(1.0F)));
  const VI q = hn::Add(hn::BitCast(DI(), shifted), hn::Set(DI(), quarters));
  const VI one = hn::Set(DI(), 1);
  const M odd = hn::RebindMask(D(), hn::Eq(hn::And(q, one), one));
  const V sign = hn::BitCast(D(), hn::ShiftLeft<30>(hn::And(q, hn::Set(DI(), 2))));
  const V y = hn::Xor(blend(odd, cos_r, sin_r), sign);
  const M far = hn::Not(hn::Le(hn::Abs(x), limit));  // NaN too
  if (HWY_LIKELY(hn::AllFalse(D(), far))) return y;
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(x, D(), lanes);
  for (float& lane : lanes) lane = quarters == 0 ? std::sin(lane) : std::cos(lane);
  return blend(far, hn::Load(D(), lanes), y);
}

HWY_INLINE V sin(V x) { return sine(x, 0); }
HWY_INLINE V cos(V x) { return sine(x, 1); }

}  // namespace wide::vector_math::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
