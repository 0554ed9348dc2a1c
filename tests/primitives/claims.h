#pragma once
#include "tests/properties/harness.h"

namespace wide::testing {

using Function = std::function<Tensors(const Tensors&)>;

inline Tensor random(Sizes sizes) {
  return at::randn(sizes, at::TensorOptions().dtype(at::kDouble));
}

/// `function` over N models, its tensors `[N, ...]`: nothing is computed model by model, and under
/// every strategy of `target`, which claims part of it, it equals the loop. No target: the
/// engine's own way.
void expect_claimed(const std::string& target, const Tensors& wide, const Function& function);
void expect_covered(const Tensors& wide, const Function& function);

}  // namespace wide::testing
