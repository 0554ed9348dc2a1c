#pragma once
#include "app/train/inputs/data.h"
#include "engine/train/loss.h"

namespace wide {

/// `--loss` and `--output`, parsed.
struct LossText {
  Loss loss;               // of the training form; without class weights that follow from the data
  size_t held_output = 0;  // place of the loss's output in the evaluation form
  /// Index of the output that `--output` names, which `predict` and out-of-fold predictions use. It
  /// may differ from a loss that is one of the network's outputs.
  size_t answer = 0;
  double label_smoothing = 0;
  bool balanced = false;  // class weights by the frequency of each class

  /// The loss of the evaluation form.
  Loss held() const;
};

/// "cross_entropy:label_smoothing=0.1:weight=1,2,3"; "output.1", "output.NAME" by `names` of
/// forward's outputs in training, and `held_names` in evaluations. Throws Error.
LossText parse_loss(const std::string& loss, const std::string& output,
                    const std::vector<std::string>& names,
                    const std::vector<std::string>& held_names);

/// Index of one of forward's outputs, given by its number or name.
size_t output_number(const std::string& option, const std::string& text,
                     const std::vector<std::string>& names);

/// Class weights as scikit-learn's "balanced" computes them, from the rows that each model learns
/// from: [C], or [N, C] if those differ.
Tensor balanced_weights(const TrainingData& data, const std::vector<ModelSettings>& models,
                        int64_t classes, int64_t ignore_index);

}  // namespace wide
