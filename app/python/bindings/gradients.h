#pragma once
#include <torch/csrc/autograd/function.h>

#include "app/python/bindings/core.h"

namespace nwide {

/// The outputs of `core` for a call whose tensors require gradients, with a node of autograd as for
/// an operator of PyTorch: several forward passes may come before their backward passes, and
/// tensors changed in place in between are an error. In C++, since a Python autograd.Function would
/// take longer than a small model's call.
wide::Tensors run_for_gradients(const std::shared_ptr<CoreState>& core, const wide::Tensors& inputs,
                                const wide::Tensors& weights, Changed* changed);

}  // namespace nwide
