#pragma once
#include "app/train/inputs/data.h"
#include "engine/train/loss.h"

namespace wide {

/// `--loss` and `--output` as they were typed.
struct LossText {
  Loss loss;  // without weights that the data decide
  /// Of forward's outputs the one that `--output` says: what `predict` and out-of-fold rows see. A
  /// loss that the network computes is another one.
  size_t answer = 0;
  double label_smoothing = 0;
  bool balanced = false;  // class weights by how often each class is there
};

/// "cross_entropy:label_smoothing=0.1:weight=1,2,3"; "output.1", "output.NAME" by `names` of
/// forward's outputs. Throws Error.
LossText parse_loss(const std::string& loss, const std::string& output,
                    const std::vector<std::string>& names);

/// One of forward's outputs, as its number or its name.
size_t output_number(const std::string& option, const std::string& text,
                     const std::vector<std::string>& names);

/// Weights of classes as scikit-learn's "balanced" has them, from the rows that each model learns
/// from: [C], or [N, C] where these differ.
Tensor balanced_weights(const TrainingData& data, const std::vector<ModelSettings>& models,
                        int64_t classes, int64_t ignore_index);

}  // namespace wide
