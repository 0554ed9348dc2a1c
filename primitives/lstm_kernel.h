#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "engine/error.h"

/// `wide::lstm_sequence`: the time loop of one LSTM layer and direction for all models, in one
/// operator. A step of eight sequences is ten dispatcher calls on a few kilobytes: calling costs
/// more than computing. Here a model's recurrent weights stay in cache over its whole sequence and
/// the gates never leave it. Included by lstm.cpp alone.
namespace wide::lstm_kernel {

using at::Tensor;

constexpr int64_t kPanel = 32;  // columns of the weights that lie together: two 512-bit registers

#define WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define WIDE_INLINE inline __attribute__((always_inline))

// ISO mode keeps a product and a sum apart; here they may be one instruction.
#pragma GCC push_options
#pragma GCC optimize("O3", "fp-contract=fast")

// ------------------------------------------------------------------------------------ numbers

/// exp as 2^n times a polynomial; relative error below 2e-7, NaN stays NaN. Coefficients: Cephes.
WIDE_INLINE float exponential(float x) {
  constexpr float kRound = 12582912.0F;  // adding 1.5 * 2^23 rounds to an integer
  x = x > 87.0F ? 87.0F : x;
  x = x < -87.0F ? -87.0F : x;
  const float n = (x * 1.44269504F + kRound) - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const float bits = (n + 127.0F) + 8388608.0F;  // the integer n + 127 in the low mantissa bits
  return p * __builtin_bit_cast(float, __builtin_bit_cast(int32_t, bits) << 23);
}

WIDE_INLINE float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

/// Near zero 1 - 2 / (1 + e^2x) would cancel: there a polynomial (Cephes).
WIDE_INLINE float hyperbolic_tangent(float x) {
  const float s = x * x;
  float p = -5.70498872745e-3F;
  p = p * s + 2.06390887954e-2F;
  p = p * s - 5.37397155531e-2F;
  p = p * s + 1.33314422036e-1F;
  p = p * s - 3.33332819422e-1F;
  const float small = p * s * x + x;
  const float large = 1.0F - 2.0F / (1.0F + exponential(2.0F * x));
  return s < 0.390625F ? small : large;
}

// ------------------------------------------------------------------------------------ product

using Lanes = float __attribute__((vector_size(64), aligned(4), may_alias));

/// out[r, 0:32] = sum over k of h[r, k] w[k, 0:32], for `Rows` rows at once.
template <int Rows>
WIDE_INLINE void panel_rows(const float* h, int64_t width, const float* w, float* out,
                            int64_t ldo) {
  Lanes low[Rows] = {}, high[Rows] = {};
  for (int64_t k = 0; k < width; ++k) {
    const Lanes a = *reinterpret_cast<const Lanes*>(w + k * kPanel);
    const Lanes b = *reinterpret_cast<const Lanes*>(w + k * kPanel + kPanel / 2);
    for (int r = 0; r < Rows; ++r) {
      low[r] += a * h[r * width + k];
      high[r] += b * h[r * width + k];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    *reinterpret_cast<Lanes*>(out + r * ldo) = low[r];
    *reinterpret_cast<Lanes*>(out + r * ldo + kPanel / 2) = high[r];
  }
}

WIDE_INLINE void product(const float* h, int64_t rows, int64_t width, const float* w,
                         int64_t panels, float* out) {
  const int64_t ldo = panels * kPanel;
  for (int64_t p = 0; p < panels; ++p) {
    const float* panel = w + p * width * kPanel;
    float* column = out + p * kPanel;
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8) panel_rows<8>(h + r * width, width, panel, column + r * ldo, ldo);
    for (; r + 4 <= rows; r += 4) panel_rows<4>(h + r * width, width, panel, column + r * ldo, ldo);
    for (; r < rows; ++r) panel_rows<1>(h + r * width, width, panel, column + r * ldo, ldo);
  }
}

// ----------------------------------------------------------------------------------- sequence

/// One model. `share` [T, B, 4H] in the order i f o g, `w` [panels, H, 32], states [B, H].
struct Sequence {
  const float *share, *h0, *w;
  float *y, *c, *gates;
  int64_t time, batch, width, panels;
  bool reverse;
};

WIDE_CLONES void run_sequence(const Sequence& s) {
  const int64_t h = s.width, stride = s.panels * kPanel;
  const float* previous = s.h0;
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = s.reverse ? s.time - 1 - k : k;
    product(previous, s.batch, h, s.w, s.panels, s.gates);
    float* y = s.y + t * s.batch * h;
    for (int64_t b = 0; b < s.batch; ++b) {
      const float* g = s.gates + b * stride;
      const float* x = s.share + (t * s.batch + b) * 4 * h;
      float *c = s.c + b * h, *out = y + b * h;
#pragma omp simd
      for (int64_t j = 0; j < h; ++j) {
        const float i = sigmoid(g[j] + x[j]), f = sigmoid(g[h + j] + x[h + j]);
        const float o = sigmoid(g[2 * h + j] + x[2 * h + j]);
        const float next = f * c[j] + i * hyperbolic_tangent(g[3 * h + j] + x[3 * h + j]);
        c[j] = next;
        out[j] = o * hyperbolic_tangent(next);
      }
    }
    previous = y;
  }
}

#pragma GCC pop_options

inline std::tuple<Tensor, Tensor> run_out(const Tensor& share, const Tensor& h0, const Tensor& c0,
                                          const Tensor& packed, bool reverse, Tensor& y,
                                          Tensor& c) {
  const int64_t n = share.size(0), time = share.size(1), batch = share.size(2);
  const int64_t width = share.size(3) / 4, panels = packed.size(1);
  TORCH_CHECK(share.is_contiguous() && packed.is_contiguous() && packed.size(2) == width &&
                  panels * kPanel >= 4 * width && y.is_contiguous() && c.is_contiguous(),
              "wide::lstm_sequence: share ", share.sizes(), " and weights ", packed.sizes(),
              " do not fit");
  const Tensor first = h0.contiguous();
  c.copy_(c0);
  const float *ps = share.const_data_ptr<float>(), *ph = first.const_data_ptr<float>();
  const float* pw = packed.const_data_ptr<float>();
  float *py = y.mutable_data_ptr<float>(), *pc = c.mutable_data_ptr<float>();
  const int64_t state = batch * width, step = batch * panels * kPanel;
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> gates(static_cast<size_t>(step));
    for (int64_t i = begin; i < end; ++i)
      run_sequence({ps + i * time * 4 * state, ph + i * state, pw + i * panels * width * kPanel,
                    py + i * time * state, pc + i * state, gates.data(), time, batch, width, panels,
                    reverse});
  });
  return {y, c};
}

inline std::tuple<Tensor, Tensor> run(const Tensor& share, const Tensor& h0, const Tensor& c0,
                                      const Tensor& packed, bool reverse) {
  const int64_t n = share.size(0), time = share.size(1), batch = share.size(2);
  const int64_t width = share.size(3) / 4;
  Tensor y = at::empty({n, time, batch, width}, share.options());
  Tensor c = at::empty({n, batch, width}, share.options());
  return run_out(share, h0, c0, packed, reverse, y, c);
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  m.def(
      "lstm_sequence(Tensor share, Tensor h0, Tensor c0, Tensor packed, bool reverse) "
      "-> (Tensor, Tensor)");
  m.def(
      "lstm_sequence.out(Tensor share, Tensor h0, Tensor c0, Tensor packed, bool reverse, *, "
      "Tensor(a!) y, Tensor(b!) c) -> (Tensor(a!), Tensor(b!))");
}

TORCH_LIBRARY_IMPL(wide, CPU, m) {
  m.impl("lstm_sequence", run);
  m.impl("lstm_sequence.out", run_out);
}

TORCH_LIBRARY_IMPL(wide, Autograd, m) {
  m.impl("lstm_sequence", torch::autograd::autogradNotImplementedFallback());
}

/// Inference in float32 on the CPU only.
inline bool applies(const Tensor& share, const Tensor& h0, const Tensor& c0) {
  if (!share.is_cpu() || share.scalar_type() != at::kFloat || share.numel() == 0) return false;
  if (h0.scalar_type() != at::kFloat || c0.scalar_type() != at::kFloat) return false;
  return !(at::GradMode::is_enabled() &&
           (share.requires_grad() || h0.requires_grad() || c0.requires_grad()));
}

/// Recurrent weights `[N, H, 4H]` as panels `[N, 4H/32, H, 32]`: of parameters alone.
inline Tensor pack(const Tensor& w) {
  const int64_t n = w.size(0), width = w.size(1), gates = w.size(2);
  const int64_t panels = (gates + kPanel - 1) / kPanel;
  const Tensor padded =
      panels * kPanel == gates ? w : at::constant_pad_nd(w, {0, panels * kPanel - gates});
  return padded.reshape({n, width, panels, kPanel}).transpose(1, 2).contiguous();
}

/// Output and last cell state.
inline std::pair<Tensor, Tensor> call(const Tensor& share, const Tensor& h0, const Tensor& c0,
                                      const Tensor& packed, bool reverse) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::lstm_sequence", "");
  std::vector<c10::IValue> stack{share.contiguous(), h0, c0, packed, reverse};
  op.callBoxed(&stack);
  return {stack[0].toTensor(), stack[1].toTensor()};
}

}  // namespace wide::lstm_kernel
