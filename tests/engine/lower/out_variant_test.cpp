#include "engine/lower/memory/out_variant.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/lower/plan/plan.h"
#include "engine/record/record.h"

namespace wide::out_variant_test {
namespace {

/// The results of `call` on `inputs` as a plan computes them, in memory of its own.
Tensors planned(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& call) {
  std::vector<Binding> bindings;
  for (const Tensor& t : inputs) bindings.push_back({"", Role::input, t});
  const Program program = record(bindings, call);
  Plan plan(program, {}, {});
  Tensors results;
  std::vector<void*> out;
  for (const Value& v : plan.results())  // which it writes contiguous
    results.push_back(at::full(v.sizes, 77, v.dtype));
  for (const Tensor& t : results) out.push_back(t.data_ptr());
  for (size_t k = 0; k < plan.outside().size(); ++k)
    plan.bind(k, inputs[program.bound_at(plan.outside()[k])].data_ptr());
  plan.bind_outputs(out);
  plan.run();
  return results;
}

/// Batch norm in training by its definition: means over all but dimension 1.
Tensor normalised(const Tensor& x) {
  std::vector<int64_t> over(static_cast<size_t>(x.dim()));
  std::iota(over.begin(), over.end(), 0);
  over.erase(over.begin() + 1);
  const Tensor apart = x - x.mean(over, true);
  return apart / (apart.square().mean(over, true) + 1e-5).sqrt();
}

/// LibTorch's own out-forms take some of these for contiguous.
TEST(OutVariant, BatchNormReadsEveryLayout) {
  const at::NoGradGuard no_grad;
  for (const Sizes& sizes :
       {Sizes{3, 4, 5}, Sizes{1, 4, 5}, Sizes{3, 4, 5, 6}, Sizes{2, 3, 1, 5}}) {
    std::vector<int64_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      Sizes stored(sizes.size());
      std::vector<int64_t> back(sizes.size());
      for (size_t d = 0; d < order.size(); ++d) {
        stored[d] = sizes[static_cast<size_t>(order[d])];
        back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
      }
      const Tensor x = at::randn(stored, at::kDouble);
      const Tensor mean = at::zeros({sizes[1]}, at::kDouble),
                   var = at::ones({sizes[1]}, at::kDouble);
      const Tensors got = planned({x, mean, var}, [&](const Tensors& t) {
        const Tensor y = t[0].permute(back);
        return Tensors{std::get<0>(at::_native_batch_norm_legit(y, {}, {}, true, 0.1, 1e-5)),
                       std::get<0>(at::native_batch_norm(y, {}, {}, {}, {}, true, 0.1, 1e-5)),
                       std::get<0>(at::native_batch_norm(y, {}, {}, t[1], t[2], false, 0.1, 1e-5))};
      });
      const Tensor y = x.permute(back);
      const Tensors expected{normalised(y), normalised(y), y / std::sqrt(1 + 1e-5)};
      for (size_t k = 0; k < got.size(); ++k)
        EXPECT_LT((got[k] - expected[k]).abs().max().item<double>(), 1e-12)
            << k << " of " << y.sizes() << ", strides " << y.strides();
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(OutVariant, BinaryCrossEntropyIsReduced) {
  const at::NoGradGuard no_grad;
  const Tensor p = at::rand({7, 3}, at::kDouble) * 0.9 + 0.05, y = at::rand({7, 3}, at::kDouble);
  const Tensor each = -(y * p.log() + (1 - y) * (1 - p).log());
  const Tensors got = planned({p, y}, [](const Tensors& t) {
    return Tensors{at::binary_cross_entropy(t[0], t[1], {}, at::Reduction::Mean),
                   at::binary_cross_entropy(t[0], t[1], {}, at::Reduction::Sum),
                   at::binary_cross_entropy(t[0], t[1], {}, at::Reduction::None)};
  });
  const Tensors expected{each.mean(), each.sum(), each};
  for (size_t k = 0; k < got.size(); ++k)
    EXPECT_LT((got[k] - expected[k]).abs().max().item<double>(), 1e-12) << k;
}

}  // namespace
}  // namespace wide::out_variant_test
