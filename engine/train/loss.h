#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// What a model is trained for: the weighted mean of a row's loss over the rows of its batch,
/// Σ w·l / Σ w, as torch.nn.functional has it with reduction "mean". Formulas and keys are torch's:
///   cross_entropy    output [B, C, ...], target int64 [B, ...]: classes
///   nll              the same of log-probabilities
///   mse l1 huber     output and target of the same sizes
///   bce_with_logits  output and target of the same sizes
///   output           the network computes it: `output` is a number [], or one a row [B]
struct Loss {
  std::string name = "cross_entropy";
  size_t output = 0;  // which of forward's outputs it sees
  /// Of cross_entropy and nll: rows with this class count for nothing.
  int64_t ignore_index = -100;
  /// Of cross_entropy and nll: a weight for each class, [C], or [N, C].
  Tensor weight;
  /// Of bce_with_logits: a weight of positive targets, as PyTorch broadcasts it to one model's
  /// output ([] or [C]), or the same with N before it.
  Tensor pos_weight;
  double delta = 1;  // of huber

  bool needs_target() const { return name != "output"; }
  bool classifies() const { return name == "cross_entropy" || name == "nll"; }
  /// Throws Error for an unknown name, a key that this loss has not, or a weight's sizes.
  void check() const;
};

const std::vector<std::string>& loss_names();

/// One model's tensors that a loss is made of.
struct LossInputs {
  Tensor output, target;      // target undefined for "output"
  Tensor row_weight;          // [B]; undefined: 1 each
  Tensor label_smoothing;     // [] of cross_entropy; undefined: 0
  Tensor weight, pos_weight;  // this model's own; undefined: none
};

/// Σ w·l and Σ w of one model's batch, both []: the quotient is the loss, and sums over batches
/// give that of all their rows. Throws Error where output and target would have to be broadcast.
/// Differentiable, no data-dependent shape: it is what training records.
struct LossSums {
  Tensor weighted, weights;
};
LossSums loss_sums(const Loss& loss, const LossInputs& inputs);

}  // namespace wide
