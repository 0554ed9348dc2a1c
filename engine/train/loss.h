#pragma once
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// The loss of a model: the weighted mean of rows' losses over its batch, Σ w·l / Σ w, as in
/// torch.nn.functional with reduction "mean". Formulas and keys are torch's:
///   cross_entropy    output [B, C, ...], target int64 [B, ...]: classes
///   nll              the same of log-probabilities
///   mse l1 huber     output and target of the same sizes
///   bce_with_logits  output and target of the same sizes
///   output           the network computes it: `output` is a number [], or one a row [B]
struct Loss {
  std::string name = "cross_entropy";
  size_t output = 0;  // index of the output of forward that it uses
  /// For cross_entropy and nll: rows with this class are ignored.
  int64_t ignore_index = -100;
  /// For cross_entropy and nll: a weight for each class, [C], or [N, C].
  Tensor weight;
  /// For bce_with_logits: a weight of positive targets, as PyTorch broadcasts it to one model's
  /// output ([] or [C]), or one for each model: [N, 1] or [N, C].
  Tensor pos_weight;
  double delta = 1;  // for huber

  bool needs_target() const { return name != "output"; }
  bool classifies() const { return name == "cross_entropy" || name == "nll"; }
  /// Dtype of targets for outputs of dtype `of`.
  at::ScalarType target_dtype(at::ScalarType of) const { return classifies() ? at::kLong : of; }
  /// Throws Error for an unknown name, a key that this loss lacks, or wrong sizes of a weight.
  void check() const;
};

const std::vector<std::string>& loss_names();

/// One model's arguments of a loss.
struct LossInputs {
  Tensor output, target;      // target undefined for "output"
  Tensor row_weight;          // [B]; undefined: all 1
  Tensor label_smoothing;     // [], for cross_entropy; undefined: 0
  Tensor weight, pos_weight;  // this model's; undefined: none
};

/// Σ w·l and Σ w of one model's batch, both []: the quotient is the loss, and sums over batches
/// give that of all their rows. Throws Error if output and target would have to be broadcast.
/// Differentiable and without data-dependent shapes, as training records it.
struct LossSums {
  Tensor weighted, weights;
};
LossSums loss_sums(const Loss& loss, const LossInputs& inputs);

}  // namespace wide
