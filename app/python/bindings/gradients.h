#pragma once
#include <torch/csrc/autograd/function.h>

#include "engine/model/module.h"

namespace nwide {

/// Makes results hang on what of a call requires gradients: who differentiates them gets an error,
/// not silence. In C++, as the same in Python takes longer than a small model's call.
class GradientRefusal {
 public:
  /// `outputs` with that history; as they are where nothing requires gradients. Whole numbers and
  /// tensors of inference mode have none. `weights` are remembered: looking again is cheap.
  wide::Tensors results(const wide::Tensors& outputs, const wide::Tensors& inputs,
                        const wide::Tensors& weights);

 private:
  wide::Tensors wanted_;  // of the weights, which weights_ leads to
  std::shared_ptr<torch::autograd::Node> weights_;
};

}  // namespace nwide
