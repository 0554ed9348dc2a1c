#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/trainer.h"

namespace wide {

/// A batch of rows that R models have answered.
struct AnsweredRows {
  Tensors outputs;      // of forward, each [R, B, ...]
  Tensor target;        // [R, B, ...], undefined where the loss needs none
  Tensor weight;        // float64 [R, B]; 0: a row that is not there
  Tensor class_weight;  // float64 [R, C] or [C] for all; undefined where the loss has none
};

/// What a metric is of.
struct MetricTask {
  const Loss* loss = nullptr;
  std::vector<int64_t> models;          // R models, by their numbers
  std::vector<double> label_smoothing;  // of each of them
};

/// One number for each of R models over rows that come in batches.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual void add(const AnsweredRows& answers) = 0;
  virtual std::vector<double> values() = 0;
};

/// Registers itself at static initialisation; definitions are scikit-learn's.
struct MetricKind {
  std::string name;
  bool more_is_better = true;
  std::string summary;
  /// Why it cannot be had with a loss, or "".
  std::function<std::string(const Loss&)> unsuited;
  std::function<std::unique_ptr<Metric>(const MetricTask&)> make;
};
bool add_metric(MetricKind kind);
const std::vector<MetricKind>& metrics();

/// A metric as it is asked for: a registered name, or "min:output.2", "max:output.1" for the mean
/// of what the network computes.
struct WantedMetric {
  std::string name;
  bool more_is_better = true;
  std::function<std::unique_ptr<Metric>(const MetricTask&)> make;
  std::optional<size_t> output = {};  // of forward's, which it is the mean of
};
/// `outputs`: names of forward's, if any. Throws Error for an unknown name, and for one that the
/// loss has no use for.
WantedMetric find_metric(const std::string& option, const std::string& name, const Loss& loss,
                         const std::vector<std::string>& outputs);

/// The output [1, B, ...], float64, whose probabilities are the mean of those of R models' outputs
/// [R, B, ...]; for losses without probabilities the mean output.
Tensor mean_answer(const Loss& loss, const Tensor& outputs);

/// Probabilities, or for other losses the output as it is.
Tensor probabilities(const Loss& loss, const Tensor& output, int64_t class_dim);

}  // namespace wide
