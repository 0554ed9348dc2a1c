// The operators of counter_draws.h for devices without a kernel for them, which the dispatcher
// calls there: by ATen operators on int64, with the same bits as the CPU's kernel.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <numbers>

#include "primitives/kernels/pointwise/counter_draws.h"

namespace wide::counter_draws_by_operators {
namespace {

using at::Tensor;

constexpr int64_t kWord = 0xFFFFFFFF;  // the low 32 bits of an int64
constexpr int64_t kLanes = 16, kWords = 4;

/// A tensor [a, b] of sizes `[2, 1, 1]`.
Tensor pair(int64_t a, int64_t b, const Tensor& like) {
  return at::cat({at::full({1, 1, 1}, a, like.options()), at::full({1, 1, 1}, b, like.options())});
}

/// The words of Philox4x32-10 for `count` elements of each model, `[N, count]`, in the order of the
/// CPU's kernel: word w of sixteen consecutive blocks, then the next word.
Tensor words(const Tensor& seed, const Tensor& step, int64_t site, int64_t count) {
  const Tensor seeds = seed.reshape({-1, 1}), steps = step.reshape({-1, 1});
  const int64_t n = seeds.size(0), chunks = (count + kLanes * kWords - 1) / (kLanes * kWords);
  const int64_t blocks = chunks * kLanes;
  const Tensor block = at::arange(blocks, seeds.options()).unsqueeze(0).expand({n, blocks});
  const Tensor later = at::full({1, 1}, site & kWord, seeds.options()).expand({n, blocks});
  // Words 0 and 2 of the counter, which are multiplied, then 1 and 3: each [2, N, blocks].
  Tensor even = at::stack({block.bitwise_and(kWord), (steps & kWord).expand({n, blocks})});
  Tensor odd = at::stack({block.bitwise_right_shift(32), later});
  Tensor key = at::stack({seeds & kWord, seeds.bitwise_right_shift(32) & kWord});
  const Tensor factors = pair(0xD2511F53, 0xCD9E8D57, seeds);
  const Tensor weyl = pair(0x9E3779B9, 0xBB67AE85, seeds);
  for (int round = 0; round < 10; ++round) {
    const Tensor product = even * factors;  // 64 bits, whatever the sign
    const Tensor high = product.bitwise_right_shift(32).bitwise_and_(kWord);
    even = high.flip(0).bitwise_xor_(odd).bitwise_xor_(key);
    odd = product.bitwise_and(kWord).flip(0);
    key = (key + weyl).bitwise_and_(kWord);
  }
  const Tensor all = at::stack({even[0], odd[0], even[1], odd[1]});  // [4, N, blocks]
  return all.view({kWords, n, chunks, kLanes})
      .permute({1, 2, 0, 3})
      .reshape({n, chunks * kLanes * kWords})
      .narrow(1, 0, count);
}

/// Bits as numbers in [0, 1), in steps of 2^-24.
Tensor unit(const Tensor& bits) {
  return bits.bitwise_right_shift(8).to(at::kDouble).mul_(0x1p-24);
}

/// `[size]`, or `[N, size]` if each model has its own seed.
std::vector<int64_t> sizes_for(const Tensor& seed, at::IntArrayRef size) {
  std::vector<int64_t> sizes = size.vec();
  if (seed.dim() == 1) sizes.insert(sizes.begin(), seed.size(0));
  return sizes;
}

Tensor uniform_by_operators(const Tensor& seed, const Tensor& step, int64_t site,
                            at::IntArrayRef size, at::ScalarType dtype) {
  return unit(words(seed, step, site, c10::multiply_integers(size)))
      .to(dtype)
      .reshape(sizes_for(seed, size));
}

Tensor normal_by_operators(const Tensor& seed, const Tensor& step, int64_t site,
                           at::IntArrayRef size, at::ScalarType dtype) {
  constexpr int64_t kHalf = kLanes * kWords / 2;
  const int64_t count = c10::multiply_integers(size);
  const int64_t chunks = (count + 2 * kHalf - 1) / (2 * kHalf);
  const Tensor drawn =
      unit(words(seed, step, site, chunks * 2 * kHalf)).view({-1, chunks, 2, kHalf});
  const Tensor radius = at::rsub(drawn.select(2, 0), 1).log_().mul_(-2).sqrt_();
  const Tensor angle = drawn.select(2, 1) * (2 * std::numbers::pi);
  return at::stack({radius * angle.cos(), radius * angle.sin()}, 2)
      .view({-1, chunks * 2 * kHalf})
      .narrow(1, 0, count)
      .to(dtype)
      .reshape(sizes_for(seed, size));
}

Tensor dropout_by_operators(const Tensor& x, const Tensor& seed, const Tensor& step,
                            const Tensor& p, double otherwise, int64_t site, int64_t drawn) {
  const int64_t before = seed.dim(), n = before == 0 ? 1 : seed.size(0);
  int64_t draws = 1;
  for (int64_t d = before; d < std::min(before + drawn, x.dim()); ++d) draws *= x.size(d);
  const Tensor asked = p.to(x.scalar_type()).to(at::kDouble).reshape({-1, 1});
  const Tensor dropped = at::where(asked < 0, at::full_like(asked, otherwise), asked);
  const Tensor kept = at::rsub(dropped, 1).clamp_(0, 1);
  const Tensor below = (kept * 4294967296.0).round_().to(at::kLong);
  // At p = 1 nothing is kept, and the scale would be infinite.
  const Tensor scale =
      at::where(kept > 0, kept.reciprocal(), at::zeros_like(kept)).to(x.scalar_type());
  const Tensor bits = words(seed, step, site, draws);
  const Tensor mask = at::where(bits < below, scale, at::zeros_like(scale));
  const int64_t inner = draws > 0 && n > 0 ? x.numel() / n / draws : 0;
  return (x.reshape({n, draws, inner}) * mask.unsqueeze(-1)).view(x.sizes());
}

Tensor& dropout_by_operators_out(const Tensor& x, const Tensor& seed, const Tensor& step,
                                 const Tensor& p, double otherwise, int64_t site, int64_t drawn,
                                 Tensor& out) {
  return out.copy_(dropout_by_operators(x, seed, step, p, otherwise, site, drawn));
}

TORCH_LIBRARY_IMPL(wide, CompositeExplicitAutograd, m) {
  m.impl("counter_dropout", dropout_by_operators);
  m.impl("counter_dropout.out", dropout_by_operators_out);
  m.impl("counter_uniform", uniform_by_operators);
  m.impl("counter_normal", normal_by_operators);
}

}  // namespace
}  // namespace wide::counter_draws_by_operators
