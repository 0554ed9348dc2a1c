#pragma once
#include <optional>

#include "engine/network.h"
#include "engine/train/loss.h"

namespace wide {

/// A model's tensors for the loss, beside the network's.
struct StepExtras {
  std::optional<TensorSpec> target, row_weight;
  Tensor class_weight, pos_weight;  // one model's; undefined: none
  bool label_smoothing = false;
};

/// A network with its loss as only result. Its further inputs follow the network's tensors; their
/// indices are given here, or -1.
struct LossNetwork {
  Network network;
  std::vector<size_t> inputs;   // of forward
  std::vector<size_t> weights;  // parameters and buffers, in the order of their specs
  int64_t target = -1, row_weight = -1, class_weight = -1, pos_weight = -1, label_smoothing = -1;
  int64_t seed = -1, step = -1, dropout = -1;  // for random numbers
};

LossNetwork with_loss(const Network& forward, const Loss& loss, const StepExtras& extras);

/// Throws Error if a loss network's Program(1) has random operators that do not draw by counter, or
/// changes a parameter.
void expect_trainable(const Program& single);

}  // namespace wide
