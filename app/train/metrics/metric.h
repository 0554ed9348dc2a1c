#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/trainer.h"

namespace wide {

/// The outputs of R models for a batch of rows.
struct AnsweredRows {
  Tensors outputs;         // of forward, each [R, B, ...]
  Tensor target;           // [R, B, ...]; undefined if the loss needs none
  Tensor weight;           // float64 [R, B]; 0: the row does not count
  Tensor class_weight;     // float64 [R, C] or [C] for all; undefined if the loss has none
  Tensor label_smoothing;  // float64 [R]; undefined if the loss has none
};

/// What a metric is computed for: the loss, and the models.
struct MetricTask {
  const Loss* loss = nullptr;
  std::vector<int64_t> models;  // R models, by their numbers
};

/// Accumulates batches, then gives one number for each of R models.
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
  /// Why the metric is not defined with this loss; "" if it is.
  std::function<std::string(const Loss&)> unsuited;
  std::function<std::unique_ptr<Metric>(const MetricTask&)> make;
};
bool add_metric(MetricKind kind);
/// `make` of a class whose constructor takes the task and `more`.
template <class Kind, class... More>
auto metric_maker(More... more) {
  return [more...](const MetricTask& task) { return std::make_unique<Kind>(task, more...); };
}
const std::vector<MetricKind>& metrics();

/// A metric as it is asked for: a registered name, or "min:output.2", "max:output.1" for the mean
/// of what the network computes.
struct WantedMetric {
  std::string name;
  bool more_is_better = true;
  std::function<std::unique_ptr<Metric>(const MetricTask&)> make;
  std::optional<size_t> output = {};  // index of the output whose mean it is
  /// Whether answers and targets give it. Else the network computes it from each model's own
  /// answer, so that a mean answer has none.
  bool of_answer = true;
};
/// `outputs`: names of forward's outputs, if it has names. Throws Error for an unknown metric, and
/// for one that is not defined with the loss.
WantedMetric find_metric(const std::string& option, const std::string& name, const Loss& loss,
                         const std::vector<std::string>& outputs);

/// The output [1, B, ...], float64, whose probabilities are the mean of those of R models' outputs
/// [R, B, ...]; for losses without probabilities the mean output.
Tensor mean_answer(const Loss& loss, const Tensor& outputs);

/// A tensor of any dtype as doubles.
std::vector<double> to_numbers(const Tensor& tensor);

/// Adds to a sum that is undefined at first.
void add_to(Tensor* sum, const Tensor& more);

/// Probabilities, or for other losses the output as it is.
Tensor probabilities(const Loss& loss, const Tensor& output, int64_t class_dim);

}  // namespace wide
