#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// Compares steps of single models with Program(1) of their loss in float64, differentiated by
/// autograd.
///
/// Where a relu's argument is zero but for rounding, or two candidates of a maximum are equal but
/// for rounding, float32 and float64 may take different sides, and both gradients are right. Such a
/// tie vanishes when the weights move a little; a wrong gradient does not. So a step that differs
/// is computed again with moved weights, and the difference is an error only if it stays.
class StepChecker {
 public:
  /// `trained`: positions of the bound values that are differentiated, with their `names`. `dtype`:
  /// that of the wide step.
  StepChecker(const Program& single, std::vector<size_t> trained, std::vector<std::string> names,
              at::ScalarType dtype);

  /// Runs the wide step with other values of the model's trained tensors (in the order of
  /// `trained`) and returns the model's loss, then its gradients.
  using Step = std::function<Tensors(const Tensors& values)>;

  /// `bound`: the model's own tensors. `got`: loss and gradients of the wide step with them.
  void add(int64_t model, const Tensors& bound, const Tensors& got, const Step& again);
  const StepCheck& result() const { return result_; }

 private:
  struct Difference {
    double loss = 0;      // absolute, like the next
    double gradient = 0;  // the largest of all gradients
    size_t worst = 0;     // index of that gradient
  };
  static Difference difference(const Tensors& a, const Tensors& b);
  /// The tolerated difference, relative to the loss and to the largest gradient.
  Difference tolerated(const Tensors& expected) const;
  /// Loss and gradients in float64.
  Tensors exact(const Tensors& bound) const;
  Tensors computed(const Program& program, Tensors bound) const;
  /// The effect of rounding on a separate model's results, against `expected`: by PyTorch in the
  /// step's dtype, and in float64 with floating inputs perturbed by that dtype's rounding. Large if
  /// the gradient is ill-conditioned, or if there are so many ties that moved weights have others.
  Difference by_rounding(const Tensors& bound, const Tensors& expected) const;
  /// The trained tensors, each value moved by up to 1 % of its tensor's largest.
  Tensors moved(const Tensors& bound, uint64_t seed) const;
  /// A text on how a difference vanishes with moved weights, or "" if it does not.
  std::string vanishes(const Tensors& bound, const Step& again) const;

  Program own_, exact_;  // in the step's dtype; in float64
  std::vector<size_t> trained_;
  std::vector<std::string> names_;
  at::ScalarType dtype_;
  StepCheck result_;
};

}  // namespace wide
