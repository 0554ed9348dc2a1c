#pragma once
#include <optional>

#include "engine/lower/executor.h"
#include "engine/network.h"
#include "engine/train/loss.h"

namespace wide {

/// What a model has beside its network's tensors when its loss is computed.
struct StepExtras {
  std::optional<TensorSpec> target, row_weight;
  Tensor class_weight, pos_weight;  // one model's; undefined: none
  bool label_smoothing = false;
};

/// A network and its loss: one result, a number. What it is bound to besides the network's tensors
/// are inputs behind them, at the places that stand here, or -1.
struct LossNetwork {
  Network network;
  std::vector<size_t> inputs;   // of forward
  std::vector<size_t> weights;  // parameters and buffers, in the order of their specs
  int64_t target = -1, row_weight = -1, class_weight = -1, pos_weight = -1, label_smoothing = -1;
  int64_t seed = -1, step = -1, dropout = -1;  // of random numbers
};

LossNetwork with_loss(const Network& forward, const Loss& loss, const StepExtras& extras);

/// Program(1) of a loss network on one model's tensors, for being differentiated. Throws Error for
/// random operators that do not draw by counter.
Program record_loss(const LossNetwork& loss, const Tensors& one);

/// Loss, gradients of `trained` (positions among the bound tensors), then what a step makes of
/// buffers in the order of `single.updates`, all `[n, ...]`: each model's own, as the sum over
/// models is differentiated. `reached`, if any: by `trained`, whether the loss depends on it; where
/// it does not, autograd gives no gradient, and zeros stand here.
Tensors differentiate_wide(const Program& single, const std::vector<size_t>& trained, int64_t n,
                           const std::vector<WideValue>& bound, const WidenOptions& options,
                           Coverage* coverage, std::vector<bool>* reached);

/// Program(n) of the above, after the passes.
std::shared_ptr<const RangeProgram> record_step(const Program& single,
                                                const std::vector<size_t>& trained,
                                                const Ensemble& models, const WidenOptions& options,
                                                std::vector<bool>* reached);
/// The same of an evaluation form: its outputs alone.
std::shared_ptr<const RangeProgram> record_evaluation(const Program& single, const Ensemble& models,
                                                      const WidenOptions& options);

}  // namespace wide
