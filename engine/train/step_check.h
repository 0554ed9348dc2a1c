#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// One model's step held against Program(1) of its loss in float64, differentiated by autograd as
/// it stands.
class StepChecker {
 public:
  /// `trained`: bound values that are differentiated, by `names`.
  StepChecker(const Program& single, std::vector<size_t> trained, std::vector<std::string> names,
              double tolerance);
  /// `bound`: the model's own tensors. `got`: loss and gradients of the wide step.
  void add(int64_t model, Tensors bound, const Tensors& got);
  const StepCheck& result() const { return result_; }

 private:
  Program exact_;
  std::vector<size_t> trained_;
  std::vector<std::string> names_;
  StepCheck result_;
};

}  // namespace wide
