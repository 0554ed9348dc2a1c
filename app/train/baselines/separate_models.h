#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/train/prepare.h"
#include "engine/train/optimizer/list_step.h"

// Models as people train them without this program: what the wide step is measured beside.
namespace wide {

/// One model's forward pass, as `Network::forward`.
using Forward = std::function<Tensors(const Tensors& bound)>;

/// torch.optim's steps on whole lists of parameters, fused where ATen has a kernel.
class ListOptimizer {
 public:
  ListOptimizer(const std::string& name, const std::map<std::string, double>& hyper);

  void add(const Tensor& parameter);
  /// Down the gradients of `loss`; parameters that it does not reach are left as they are.
  void step(const Tensor& loss);

 private:
  void leave_out(const Tensors& gradients);

  const Optimizer& optimizer_;
  std::vector<double> hyper_;
  ListStep step_;
};

/// One model's batch as its network takes it.
struct OwnBatch {
  OwnBatch(const Prepared& run, const Batch& batch, int64_t model);

  Tensors inputs;
  Tensor target, weight;  // undefined: none
};

/// One model as its users train it: autograd, and ATen's fused optimiser where there is one. All
/// its steps are on the batch that it was made with.
class SeparateModel {
 public:
  SeparateModel(const Prepared& run, const Start& start, const Batch& batch, int64_t model);
  /// The loss before the step, a number.
  Tensor step();

 private:
  const Loss& loss_;
  Forward forward_;
  OwnBatch batch_;
  Tensor smoothing_;
  ListOptimizer optimizer_;
  Tensors bound_;
};

/// All models as torch.func users train them: vmap of the loss, autograd and one optimiser on wide
/// tensors. It has the first model's hyperparameters for all: ATen's kernels take no others.
class VmappedModels {
 public:
  VmappedModels(const Prepared& run, const Start& start, const Batch& batch);
  /// Losses [N] before the step.
  Tensor step();

 private:
  const Loss& loss_;
  Forward forward_;
  Tensor smoothing_;
  ListOptimizer optimizer_;
  int64_t n_;
  Tensors bound_;
  std::vector<bool> shared_;
  size_t inputs_ = 0;
  bool has_target_ = false, has_weight_ = false;
};

/// Several separate models, each with weights of its own.
class SeparateModels {
 public:
  /// The models 0 to `count` - 1 of the run.
  SeparateModels(const Prepared& run, const Start& start, const Batch& batch, int64_t count);

  /// A step of each, one after the other, operators on all threads. Losses [count] before it.
  Tensor step_in_loop();
  /// A step of each, spread over `threads` threads with operators on one thread each.
  Tensor step_spread(int threads);

 private:
  std::vector<std::unique_ptr<SeparateModel>> models_;
};

}  // namespace wide
