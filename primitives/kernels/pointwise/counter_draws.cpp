#include "primitives/kernels/pointwise/counter_draws.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/lower/plan/operator_traits.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "primitives/kernels/pointwise/counter_draws.cpp"
#include "primitives/kernels/highway.h"

HWY_BEFORE_NAMESPACE();
namespace wide::philox::HWY_NAMESPACE {

constexpr int64_t kBlocks = 16;
using Words = uint32_t __attribute__((vector_size(kBlocks * 4)));
using Products = uint64_t __attribute__((vector_size(kBlocks * 8)));

/// Philox4x32-10 (Salmon et al. 2011) of sixteen consecutive counters: (block, step, site) under
/// the seed. Word w of block b is element 16 w + b of the chunk.
void draw(uint64_t seed, uint32_t step, uint32_t site, int64_t chunk, uint32_t* out) {
  Words c0{}, c1{}, c2 = Words{} + step, c3 = Words{} + site;
  for (int64_t b = 0; b < kBlocks; ++b) {
    const auto block = static_cast<uint64_t>(chunk * kBlocks + b);
    c0[b] = static_cast<uint32_t>(block);
    c1[b] = static_cast<uint32_t>(block >> 32U);
  }
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32U);
  for (int round = 0; round < 10; ++round) {
    const Products a = __builtin_convertvector(c0, Products) * 0xD2511F53ULL;
    const Products b = __builtin_convertvector(c2, Products) * 0xCD9E8D57ULL;
    const Words high_a = __builtin_convertvector(a >> 32U, Words);
    const Words high_b = __builtin_convertvector(b >> 32U, Words);
    c0 = high_b ^ c1 ^ key0;
    c1 = __builtin_convertvector(b, Words);
    c2 = high_a ^ c3 ^ key1;
    c3 = __builtin_convertvector(a, Words);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const Words* all[4] = {&c0, &c1, &c2, &c3};
  for (int w = 0; w < 4; ++w)
    for (int64_t b = 0; b < kBlocks; ++b) out[w * kBlocks + b] = (*all[w])[b];
}

}  // namespace wide::philox::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wide {

namespace philox {

WIDE_DISPATCHED(void, draw,
                (uint64_t seed, uint32_t step, uint32_t site, int64_t chunk, uint32_t* out), seed,
                step, site, chunk, out)

}  // namespace philox
namespace {

using at::Tensor;

constexpr int64_t kChunk = 64;  // elements drawn at a time: four words of sixteen blocks

struct Stream {
  uint64_t seed = 0;
  uint32_t step = 0, site = 0;

  void draw(int64_t chunk, uint32_t* out) const { philox::draw(seed, step, site, chunk, out); }
};

double unit(uint32_t bits) { return double(bits >> 8U) * 0x1p-24; }

/// The models of a call: one (`wide` false), or N.
struct Models {
  int64_t n;
  bool wide;
  Stream stream(const Tensor& seed, const Tensor& step, int64_t site, int64_t i) const {
    const auto at = [&](const Tensor& t) {
      return t.const_data_ptr<int64_t>()[wide ? i * t.stride(0) : 0];
    };
    return {static_cast<uint64_t>(at(seed)), static_cast<uint32_t>(at(step)),
            static_cast<uint32_t>(site)};
  }
};

Models models_of(const Tensor& seed, const Tensor& step) {
  TORCH_CHECK(seed.dim() <= 1 && step.sizes() == seed.sizes() && seed.scalar_type() == at::kLong &&
                  step.scalar_type() == at::kLong,
              "counter draws: seed and step must be int64 [] or [N]");
  return {seed.dim() == 0 ? 1 : seed.size(0), seed.dim() == 1};
}

template <class T>
void drop(const T* x, T* y, int64_t draws, int64_t inner, const Stream& stream, double p) {
  // At p = 1 nothing is kept, and the scale, which would be infinite, is not used.
  const double kept = std::clamp(1 - p, 0.0, 1.0);
  const auto keep = static_cast<uint64_t>(std::nearbyint(kept * 4294967296.0));
  const T scale = kept > 0 ? T(1 / kept) : T(0);
  uint32_t bits[kChunk];
  for (int64_t i = 0; i < draws; i += kChunk) {
    stream.draw(i / kChunk, bits);
    const int64_t count = std::min(kChunk, draws - i);
    for (int64_t k = 0; k < count; ++k) {
      const T mask = bits[k] < keep ? scale : T(0);
      const T* from = x + (i + k) * inner;
      T* to = y + (i + k) * inner;
      for (int64_t j = 0; j < inner; ++j) to[j] = from[j] * mask;  // a product, so that NaN stays
    }
  }
}

Tensor& dropout_out(const Tensor& given, const Tensor& seed, const Tensor& step, const Tensor& p,
                    double otherwise, int64_t site, int64_t drawn, Tensor& out) {
  const Models models = models_of(seed, step);
  const Tensor x = given.contiguous();
  TORCH_CHECK(out.is_contiguous() && out.sizes() == x.sizes(), "counter_dropout: out ", out.sizes(),
              " is not a contiguous ", x.sizes());
  const int64_t before = models.wide ? 1 : 0;
  TORCH_CHECK(!models.wide || x.size(0) == models.n, "counter_dropout: x ", x.sizes(), " for ",
              models.n, " models");
  int64_t draws = 1;
  for (int64_t d = before; d < std::min(before + drawn, x.dim()); ++d) draws *= x.size(d);
  const int64_t each = models.n > 0 ? x.numel() / models.n : 0;
  const int64_t inner = draws > 0 ? each / draws : 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "counter_dropout", [&] {
    const Tensor own = p.to(x.scalar_type()).contiguous();
    for (int64_t i = 0; i < models.n; ++i) {
      const double asked = double(own.const_data_ptr<scalar_t>()[own.dim() == 0 ? 0 : i]);
      drop(x.const_data_ptr<scalar_t>() + i * each, out.mutable_data_ptr<scalar_t>() + i * each,
           draws, inner, models.stream(seed, step, site, i), asked < 0 ? otherwise : asked);
    }
  });
  return out;
}

/// Fills each model's `[size]` with `of` of its random bits, chunk by chunk.
template <class Of>
Tensor filled(const Tensor& seed, const Tensor& step, int64_t site, at::IntArrayRef size,
              at::ScalarType dtype, Of of) {
  const Models models = models_of(seed, step);
  std::vector<int64_t> sizes = size.vec();
  if (models.wide) sizes.insert(sizes.begin(), models.n);
  const Tensor made = at::empty(sizes, at::TensorOptions(dtype));
  const int64_t each = models.n > 0 ? made.numel() / models.n : 0;
  AT_DISPATCH_FLOATING_TYPES(dtype, "counter_draws", [&] {
    uint32_t bits[kChunk];
    double values[kChunk];
    auto* out = made.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < models.n; ++i)
      for (int64_t k = 0; k < each; k += kChunk) {
        models.stream(seed, step, site, i).draw(k / kChunk, bits);
        of(bits, values);
        const int64_t count = std::min(kChunk, each - k);
        for (int64_t e = 0; e < count; ++e) out[i * each + k + e] = scalar_t(values[e]);
      }
  });
  return made;
}

Tensor uniform_kernel(const Tensor& seed, const Tensor& step, int64_t site, at::IntArrayRef size,
                      at::ScalarType dtype) {
  return filled(seed, step, site, size, dtype, [](const uint32_t* bits, double* values) {
    for (int64_t k = 0; k < kChunk; ++k) values[k] = unit(bits[k]);
  });
}

Tensor normal_kernel(const Tensor& seed, const Tensor& step, int64_t site, at::IntArrayRef size,
                     at::ScalarType dtype) {
  return filled(seed, step, site, size, dtype, [](const uint32_t* bits, double* values) {
    for (int64_t k = 0; k < kChunk / 2; ++k) {
      const double radius = std::sqrt(-2 * std::log(1 - unit(bits[k])));
      const double angle = 2 * std::numbers::pi * unit(bits[k + kChunk / 2]);
      values[k] = radius * std::cos(angle);
      values[k + kChunk / 2] = radius * std::sin(angle);
    }
  });
}

class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& seed, const Tensor& step, const Tensor& p, double otherwise,
                        int64_t site, int64_t drawn) {
    context->save_for_backward({seed, step, p});
    context->saved_data["otherwise"] = otherwise;
    context->saved_data["site"] = site;
    context->saved_data["drawn"] = drawn;
    const at::AutoDispatchBelowADInplaceOrView below;
    return counter_dropout(x, seed, step, p, otherwise, site, drawn);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    torch::autograd::variable_list made(7);  // of x alone
    made[0] = counter_dropout(
        gradients[0], saved[0], saved[1], saved[2], context->saved_data["otherwise"].toDouble(),
        context->saved_data["site"].toInt(), context->saved_data["drawn"].toInt());
    return made;
  }
};

Tensor dropout_autograd(const Tensor& x, const Tensor& seed, const Tensor& step, const Tensor& p,
                        double otherwise, int64_t site, int64_t drawn) {
  if (at::GradMode::is_enabled() && x.requires_grad())
    return Dropout::apply(x, seed, step, p, otherwise, site, drawn);
  // Without a gradient no custom function is applied: it would turn grad mode off in a recording.
  const at::AutoDispatchBelowADInplaceOrView below;
  return counter_dropout(x, seed, step, p, otherwise, site, drawn);
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  const std::vector<at::ScalarType> real{at::kFloat, at::kDouble}, counts{at::kLong};
  kernels::add_filled_operator(
      m, "counter_dropout",
      "Tensor x, Tensor seed, Tensor step, Tensor p, float otherwise, int site, int drawn",
      kernels::like_first, dropout_out, {.dtypes = real, .others = counts, .gradients = true});
  const std::string arguments = "Tensor seed, Tensor step, int site, int[] size, ScalarType dtype";
  kernels::add_operator(m, "counter_uniform", arguments, uniform_kernel,
                        {.dtypes = real, .others = counts});
  kernels::add_operator(m, "counter_normal", arguments, normal_kernel,
                        {.dtypes = real, .others = counts});
}

TORCH_LIBRARY_IMPL(wide, Autograd, m) { m.impl("counter_dropout", dropout_autograd); }

[[maybe_unused]] const bool registered =
    add_operator_traits({.op = "wide::counter_dropout", .in_place = true});

}  // namespace

Tensor counter_dropout(const Tensor& x, const Tensor& seed, const Tensor& step, const Tensor& p,
                       double otherwise, int64_t site, int64_t drawn) {
  return kernels::call("counter_dropout", {x, seed, step, p, otherwise, site, drawn});
}

Tensor counter_uniform(const Tensor& seed, const Tensor& step, int64_t site, at::IntArrayRef size,
                       at::ScalarType dtype) {
  return kernels::call("counter_uniform", {seed, step, site, size.vec(), dtype});
}

Tensor counter_normal(const Tensor& seed, const Tensor& step, int64_t site, at::IntArrayRef size,
                      at::ScalarType dtype) {
  return kernels::call("counter_normal", {seed, step, site, size.vec(), dtype});
}

}  // namespace wide
#endif
