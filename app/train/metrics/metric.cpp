#include "app/train/metrics/metric.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "app/train/metrics/loss_text.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/program/registry.h"

namespace wide {
namespace {

/// The mean of an output over the rows.
class MeanOutput final : public Metric {
 public:
  MeanOutput(size_t output, size_t models) : output_(output), sum_(models, 0), rows_(models, 0) {}
  void add(const AnsweredRows& a) override {
    const Tensor& output = a.outputs.at(output_);
    for (size_t i = 0; i < sum_.size(); ++i) {
      const auto m = static_cast<int64_t>(i);
      const Tensor x = output[m].to(at::kDouble), w = a.weight[m];
      const double rows = w.sum().item<double>();
      if (rows == 0) continue;  // the batch has no rows of this model
      const bool by_row = x.dim() > 0 && x.size(0) == w.size(0);
      sum_[i] += by_row ? (x.reshape({x.size(0), -1}).mean(1) * w).sum().item<double>()
                        : x.mean().item<double>() * rows;
      rows_[i] += rows;
    }
  }
  std::vector<double> values() override {
    std::vector<double> all;
    for (size_t i = 0; i < sum_.size(); ++i) all.push_back(sum_[i] / rows_[i]);
    return all;
  }

 private:
  size_t output_;
  std::vector<double> sum_, rows_;
};

}  // namespace

bool add_metric(MetricKind kind) { return enter(std::move(kind), &MetricKind::name); }
const std::vector<MetricKind>& metrics() { return registry<MetricKind>(); }

WantedMetric find_metric(const std::string& option, const std::string& name, const Loss& loss,
                         const std::vector<std::string>& outputs) {
  const size_t colon = name.find(':');
  const std::string direction = colon == std::string::npos ? "" : name.substr(0, colon);
  const std::string rest = colon == std::string::npos ? name : name.substr(colon + 1);
  if (rest.rfind("output.", 0) == 0) {
    if (direction != "min" && direction != "max")
      fail("[{}] metric: got {}, expected min: or max: before it; try min:{}", option,
           printable(name), printable(rest));
    const size_t output = output_number(option, rest.substr(7), outputs);
    const auto make = [output](const MetricTask& task) {
      return std::make_unique<MeanOutput>(output, task.models.size());
    };
    return {name, direction == "max", make, output, /*of_answer=*/false};
  }
  for (const MetricKind& kind : metrics()) {
    if (kind.name != name) continue;
    if (const std::string why = kind.unsuited(loss); !why.empty())
      fail("[{}] metric: got {} with {}, expected {}; try another metric", option, name, loss.name,
           why);
    return {name, kind.more_is_better, kind.make, {}, /*of_answer=*/loss.name != "output"};
  }
  const std::vector<std::string> names = names_of(metrics());
  fail("[{}] metric: got {}, expected one of {}; try {}", option, printable(name),
       listing(names, 20), nearest(name, names, "loss"));
}

Tensor mean_answer(const Loss& loss, const Tensor& outputs) {
  const Tensor exact = outputs.to(at::kDouble);
  // Logarithms are averaged as such: a probability near 0 or 1 is rounded, its logarithm is not.
  const auto mean = [&](const Tensor& logarithms) {
    return at::logsumexp(logarithms, 0, /*keepdim=*/true) - std::log(double(exact.size(0)));
  };
  if (loss.name == "cross_entropy") return mean(at::log_softmax(exact, 2));
  if (loss.name == "nll") return mean(exact);
  if (loss.name == "bce_with_logits")
    return mean(at::log_sigmoid(exact)) - mean(at::log_sigmoid(-exact));
  return exact.mean(0, /*keepdim=*/true);
}

std::vector<double> to_numbers(const Tensor& tensor) {
  const Tensor plain = tensor.to(at::kDouble).contiguous();
  return {plain.const_data_ptr<double>(), plain.const_data_ptr<double>() + plain.numel()};
}

void add_to(Tensor* sum, const Tensor& more) { *sum = sum->defined() ? *sum + more : more; }

Tensor probabilities(const Loss& loss, const Tensor& output, int64_t class_dim) {
  if (loss.name == "cross_entropy") return at::softmax(output, class_dim);
  if (loss.name == "nll") return at::exp(output);
  if (loss.name == "bce_with_logits") return at::sigmoid(output);
  return output;
}

}  // namespace wide
