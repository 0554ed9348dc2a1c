#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace wide {

/// A number that each model has. Values must lie between `low` and `high`.
struct Hyperparameter {
  std::string name;
  double value = 0;  // the default
  double low = 0, high = 1e300;
  std::string meaning;  // in a few words
};

/// One parameter of one model and its state, `count` numbers each, which an optimiser's step
/// changes in place. `hyper` in the order of `Optimizer::hyperparameters`, the learning rate times
/// the schedule's factor; `step` counts this model's steps that use a state from 1.
template <class T>
struct ParameterStep {
  int64_t count = 0;
  T* parameter = nullptr;
  const T* gradient = nullptr;
  T gradient_scale = 1;  // by clipping: multiplies the gradient
  const double* hyper = nullptr;
  int64_t step = 1;
  T* const* state = nullptr;  // by `Optimizer::state`; null if not used
};

struct ListStep;
struct TensorStep;

/// A tensor like each parameter that an optimiser keeps between steps; it begins as zeros.
struct OptimizerState {
  std::string name;       // as in torch.optim: "exp_avg"
  std::string only_with;  // needed if this hyperparameter of any model is not 0; "": always
};

/// Where an optimiser is the default: in training, or for phase `step` of a target.
enum class DefaultOf { nothing, training, step_phase };

/// An optimiser by a formula for one parameter of one model: registered by a file in
/// primitives/optimizers/.
struct Optimizer {
  std::string name;                             // as in torch.optim, in lower case
  std::string summary;                          // one line
  std::string source;                           // the class of torch.optim, or a paper
  std::vector<Hyperparameter> hyperparameters;  // the first is "lr", "weight_decay" among them
  std::vector<OptimizerState> state;
  void (*step_f32)(const ParameterStep<float>&) = nullptr;
  void (*step_f64)(const ParameterStep<double>&) = nullptr;
  void step(const ParameterStep<float>& s) const { step_f32(s); }
  void step(const ParameterStep<double>& s) const { step_f64(s); }
  /// The step by ATen's fused or list operators, for baselines of separate models
  /// (engine/train/optimizer/list_step.h). Null: by the formula.
  void (*step_lists)(const ListStep&) = nullptr;
  /// The step for N models by operators of any device; returns the new parameter, then the new
  /// state (engine/train/optimizer/tensor_step.h).
  std::vector<at::Tensor> (*step_tensors)(const TensorStep&) = nullptr;
  /// Why one model's hyperparameters conflict, or ""; may be null.
  std::string (*conflict)(const double* hyper) = nullptr;
  /// The optimiser in Python, for the baseline torch.compile: `fused(group, lr, h)` makes
  /// torch.optim's, `update(p, g, lr, h, *state)` returns the parameters after a late step. `h`:
  /// hyperparameters by name. "": steps have no such baseline.
  std::string python{};
  DefaultOf default_of = DefaultOf::nothing;
  std::string file{};

  /// Index of a hyperparameter; -1 if there is none of that name.
  int64_t index(const std::string& hyperparameter) const;
  /// Index of the hyperparameter at whose 0 a step uses no state and is not counted; -1: all steps
  /// are counted.
  int64_t counted_with() const;
};

/// Registers at static initialisation; `file` is __FILE__. Returns true.
bool add_optimizer(Optimizer optimizer, const char* file);
#define WIDE_OPTIMIZER(...)                                 \
  [[maybe_unused]] static const bool registered_optimizer = \
      ::wide::add_optimizer(__VA_ARGS__, __FILE__)

/// All optimisers, sorted by name.
const std::vector<Optimizer>& optimizers();
/// Throws Error for an unknown name, with the nearest known one.
const Optimizer& optimizer(const std::string& name);
/// The default optimiser for a use. Not to be called during static initialisation.
const Optimizer& default_optimizer(DefaultOf use);

}  // namespace wide
