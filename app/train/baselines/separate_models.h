#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/train/prepare.h"
#include "engine/train/optimizer/list_step.h"

// Baselines of training: models trained separately, as people do without this program.
namespace wide {

/// One model's forward pass, as `Network::forward`.
using Forward = std::function<Tensors(const Tensors& bound)>;

/// torch.optim's steps on whole lists of parameters, fused where ATen has a kernel.
class ListOptimizer {
 public:
  ListOptimizer(const std::string& name, const std::map<std::string, double>& hyper);

  void add(const Tensor& parameter);
  /// A step by the gradients of `loss`. Parameters on which it does not depend stay as they are.
  void step(const Tensor& loss);

 private:
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

/// One model as users train it: by autograd, and ATen's fused optimiser where there is one. Every
/// step uses the batch that it was made with.
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

/// All models as users of torch.func train them: vmap of the loss, autograd, and one optimiser on
/// wide tensors. All models get the hyperparameters of the first, since ATen's kernels take only
/// one number for a tensor.
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
