// Layer normalisation written out in primitive operations is layer normalisation, whichever way its
// variance and its root are written; what only looks like it is left to whoever claims its parts.
#include "tests/primitives/claims.h"

namespace wide::testing::layer_norm_test {
namespace {

constexpr int64_t kModels = 3, kWidth = 7;

const Tensors& tensors() {
  static const Tensors all{random({kModels, 2, 5, kWidth}), random({kModels, kWidth}),
                           random({kModels, kWidth})};
  return all;
}

Tensor centred(const Tensor& x) { return x - x.mean(-1, true); }

TEST(LayerNormWrittenOut, InEveryForm) {
  const std::vector<Function> forms{
      [](const Tensors& in) -> Tensors {
        const Tensor d = centred(in[0]), variance = d.pow(2).mean(-1, true);
        return {d / at::sqrt(variance + 1e-3) * in[1] + in[2]};
      },
      [](const Tensors& in) -> Tensors {
        const Tensor d = centred(in[0]), variance = (d * d).mean(-1, true);
        return {in[2] + in[1] * (d * at::rsqrt(variance + 1e-3))};
      },
      [](const Tensors& in) -> Tensors {
        const Tensor variance = at::var(in[0], {-1}, /*correction=*/0, /*keepdim=*/true);
        return {in[1] * (centred(in[0]) / at::sqrt(variance + 1e-3)) + in[2]};
      },
      [](const Tensors& in) -> Tensors {
        const Tensor d = centred(in[0]), variance = d.pow(2).mean(-1, true);
        return {d * (variance + 1e-3).pow(-0.5) * in[1] + in[2]};
      },
      [](const Tensors& in) -> Tensors {
        const Tensor d = centred(in[0]), variance = d.pow(2).mean(-1, true);
        return {(variance + 1e-3).sqrt().reciprocal() * d * in[1] + in[2]};
      }};
  for (const Function& form : forms) expect_claimed("layernorm", tensors(), form);
}

TEST(LayerNormWrittenOut, WhatOnlyLooksLikeIt) {
  const std::vector<Function> forms{
      [](const Tensors& in) -> Tensors {  // as statisticians estimate it
        const Tensor variance = at::var(in[0], {-1}, /*correction=*/1, /*keepdim=*/true);
        return {in[1] * (centred(in[0]) / at::sqrt(variance + 1e-3)) + in[2]};
      },
      [](const Tensors& in) -> Tensors {  // over another axis
        const Tensor d = in[0] - in[0].mean(-2, true), variance = d.pow(2).mean(-2, true);
        return {d / at::sqrt(variance + 1e-3) * in[1] + in[2]};
      },
      [](const Tensors& in) -> Tensors {  // the variance of something else
        const Tensor d = centred(in[0]), variance = in[0].pow(2).mean(-1, true);
        return {d / at::sqrt(variance + 1e-3) * in[1] + in[2]};
      },
      [](const Tensors& in) -> Tensors {  // what was subtracted is read outside
        const Tensor d = centred(in[0]), variance = d.pow(2).mean(-1, true);
        return {d / at::sqrt(variance + 1e-3) * in[1] + in[2], d};
      }};
  for (const Function& form : forms) expect_covered(tensors(), form);
}

}  // namespace
}  // namespace wide::testing::layer_norm_test
