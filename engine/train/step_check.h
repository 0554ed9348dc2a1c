#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// Compares steps of single models with Program(1) of their loss in float64, differentiated by
/// autograd as it stands.
///
/// Where a relu's argument is zero but for rounding, or two candidates of a maximum are equal but
/// for rounding, float32 and float64 may take different sides, and both gradients are right. Such
/// a tie goes away when the weights move a little; a wrong gradient stays. So a step that differs
/// is computed again with moved weights, and the difference is an error only if it stays.
class StepChecker {
 public:
  /// `trained`: positions of the bound values that are differentiated, with their `names`. `dtype`:
  /// what the wide step computes in.
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
    double loss = 0;      // absolute, as the following
    double gradient = 0;  // the largest of all gradients
    size_t worst = 0;     // which gradient that is
  };
  static Difference difference(const Tensors& a, const Tensors& b);
  /// What a difference may be: a share of the loss and of the largest gradient.
  Difference tolerated(const Tensors& expected) const;
  /// Loss and gradients in float64.
  Tensors exact(const Tensors& bound) const;
  Tensors computed(const Program& program, Tensors bound) const;
  /// How far rounding takes a separate model's results from `expected`: what PyTorch gives in the
  /// step's dtype, and exact results where everything real moves by that dtype's rounding. Far
  /// where the gradient is ill-conditioned, or where ties are so many that moving the weights only
  /// makes other ones.
  Difference by_rounding(const Tensors& bound, const Tensors& expected) const;
  /// Other values of the trained tensors, each moved by up to a hundredth of its tensor's largest.
  Tensors moved(const Tensors& bound, uint64_t seed) const;
  /// Whether a difference is gone with moved weights; how, in words, or nothing where it stays.
  std::string vanishes(const Tensors& bound, const Step& again) const;

  Program own_, exact_;  // in the step's dtype, in float64
  std::vector<size_t> trained_;
  std::vector<std::string> names_;
  at::ScalarType dtype_;
  StepCheck result_;
};

}  // namespace wide
