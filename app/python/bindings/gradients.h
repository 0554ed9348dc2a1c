#pragma once
#include <torch/csrc/autograd/function.h>

#include "app/python/bindings/core.h"

namespace nwide {

/// The outputs of `core` for a call whose tensors require gradients, connected to them as what an
/// operator of PyTorch makes: any number of calls may be alive before their backward passes, each
/// keeps what it saved until it is released, tensors changed in place meanwhile are refused. In
/// C++, as the same in Python takes longer than a small model's call.
wide::Tensors run_for_gradients(const std::shared_ptr<CoreState>& core, const wide::Tensors& inputs,
                                const wide::Tensors& weights, Changed* changed);

}  // namespace nwide
