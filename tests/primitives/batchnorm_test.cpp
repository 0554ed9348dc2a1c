#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/check/check.h"
#include "primitives/norm/batchnorm_common.h"

namespace wide::batchnorm_test {
namespace {

/// What a convolution as a product makes of one sample: channels innermost, and a stride of the
/// batch that nothing asks for. LibTorch's own gradient of a batch norm is wrong there.
TEST(BatchNorm, GradientsOfOneSampleWithChannelsInnermost) {
  const int64_t c = 5, h = 2, w = 3;
  at::manual_seed(3);
  for (const int64_t n : {1, 3}) {
    const Tensor values = at::randn({n * c * h * w});
    for (const int64_t batch_stride : {int64_t{1}, c, c * h * w, n * c * h * w}) {
      const Tensor x = values.as_strided({n, 1, c, h, w}, {c * h * w, batch_stride, 1, w * c, c})
                           .requires_grad_();
      const Tensor weight = at::randn({n, c}).requires_grad_(), bias = at::randn({n, c});
      const Tensor along = at::randn({n, 1, c, h, w});
      const Tensors made = batchnorm::train(
          {.training = true}, {n, {x, weight, bias, at::zeros({n, c}), at::ones({n, c})}, {}});
      const Tensors got = torch::autograd::grad({made[0]}, {x, weight}, {along});
      for (int64_t i = 0; i < n; ++i) {
        const auto exact = [i](const Tensor& t) {
          return t.detach()[i].to(at::kDouble).contiguous().requires_grad_();
        };
        const Tensor own_x = exact(x), own_weight = exact(weight);
        const Tensor y = at::batch_norm(own_x, own_weight, bias[i].to(at::kDouble), {}, {}, true,
                                        0.1, 1e-5, false);
        const Tensors expected =
            torch::autograd::grad({y}, {own_x, own_weight}, {along[i].to(at::kDouble)});
        EXPECT_LT(max_relative_error({made[0][i].unsqueeze(0)}, {y.unsqueeze(0)}), 1e-4);
        for (size_t k = 0; k < 2; ++k)
          EXPECT_LT((got[k][i] - expected[k]).abs().max().item<double>(), 1e-4)
              << "stride " << batch_stride << " model " << i << " argument " << k;
      }
    }
  }
}

}  // namespace
}  // namespace wide::batchnorm_test
