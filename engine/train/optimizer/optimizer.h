#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace wide {

/// A number that every model has of its own. What is set is held against `low` and `high`.
struct Hyperparameter {
  std::string name;
  double value = 0;  // where nothing is said
  double low = 0, high = 1e300;
  std::string meaning;  // in a few words
};

/// One parameter of one model and what an optimiser's step does to it, all in place: `count`
/// numbers each. `hyper` in the order of `Optimizer::hyperparameters`, the learning rate as the
/// schedule has it now; `step` counts this model's steps from 1.
template <class T>
struct ParameterStep {
  int64_t count = 0;
  T* parameter = nullptr;
  const T* gradient = nullptr;
  T gradient_scale = 1;  // of clipping: the gradient is this times what stands there
  const double* hyper = nullptr;
  int64_t step = 1;
  T* const* state = nullptr;  // by `Optimizer::state`; null where it is not kept
};

struct ListStep;
struct TensorStep;

/// A tensor like each parameter that an optimiser keeps between steps; it begins as zeros.
struct OptimizerState {
  std::string name;       // as torch.optim's: "exp_avg"
  std::string only_with;  // kept where this hyperparameter of any model is not 0; "": always
};

/// What takes an optimiser where none is named: a training, or phase `step` of a target.
enum class DefaultOf { nothing, training, step_phase };

/// An optimiser by a formula for one parameter of one model: a row of the table that a file under
/// primitives/optimizers/ registers.
struct Optimizer {
  std::string name;                             // as torch.optim calls it, in lower case
  std::string summary;                          // one line
  std::string source;                           // the class of torch.optim, or a paper
  std::vector<Hyperparameter> hyperparameters;  // the first is "lr", "weight_decay" among them
  std::vector<OptimizerState> state;
  void (*step_f32)(const ParameterStep<float>&) = nullptr;
  void (*step_f64)(const ParameterStep<double>&) = nullptr;
  /// The same by ATen's fused or list operators: how separate models take it where they are the
  /// baseline (engine/train/optimizer/list_step.h). Null: by the formula.
  void (*step_lists)(const ListStep&) = nullptr;
  /// The same for N models by operators that run on any device: the new parameter, then the new
  /// state (engine/train/optimizer/tensor_step.h).
  std::vector<at::Tensor> (*step_tensors)(const TensorStep&) = nullptr;
  /// Why one model's values do not go together, "" where they do; may be empty.
  std::string (*conflict)(const double* hyper) = nullptr;
  /// The same in Python, for torch.compile as a baseline: `fused(group, lr, h)`, the optimiser of
  /// torch.optim, and `update(p, g, lr, h, *state)`, what parameters become far into a training.
  /// `h` has the hyperparameters by name. "": it is no baseline of steps.
  std::string python{};
  DefaultOf default_of = DefaultOf::nothing;
  std::string file{};

  /// Position of a hyperparameter; -1 where it has none of that name.
  int64_t index(const std::string& hyperparameter) const;
};

/// Registers at static initialisation; `file` is __FILE__. Returns true.
bool add_optimizer(Optimizer optimizer, const char* file);
#define WIDE_OPTIMIZER(...)                                 \
  [[maybe_unused]] static const bool registered_optimizer = \
      ::wide::add_optimizer(__VA_ARGS__, __FILE__)

/// All, sorted by name.
const std::vector<const Optimizer*>& optimizers();
/// Throws Error for an unknown name, with the nearest known one.
const Optimizer& optimizer(const std::string& name);
/// The one that is registered as the default of a training or of phase `step`. Not during static
/// initialisation.
const Optimizer& default_optimizer(DefaultOf use);

}  // namespace wide
