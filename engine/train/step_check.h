#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// One model's step held against Program(1) of its loss in float64, differentiated by autograd as
/// it stands.
class StepChecker {
 public:
  /// `trained`: bound values that are differentiated, by `names`; `dtype`: of the step.
  StepChecker(const Program& single, std::vector<size_t> trained, std::vector<std::string> names,
              at::ScalarType dtype);
  /// `bound`: the model's own tensors. `got`: loss and gradients of the wide step.
  void add(int64_t model, Tensors bound, const Tensors& got);
  const StepCheck& result() const { return result_; }

 private:
  /// Loss and gradients in float64 of the model's tensors in float64.
  Tensors exactly(Tensors bound) const;
  /// By how much gradients move when all that is real moves by a float32's rounding: a relu whose
  /// argument is nearly zero passes its gradient or does not.
  double moved_by_rounding(const Tensors& bound, const Tensors& expected) const;

  Program exact_;
  std::vector<size_t> trained_;
  std::vector<std::string> names_;
  bool rounds_;  // the step computes in less than float64
  StepCheck result_;
};

}  // namespace wide
