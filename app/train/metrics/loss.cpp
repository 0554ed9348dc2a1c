// Σ w·l / Σ w over all rows, as in training
#include <ATen/ATen.h>

#include "app/train/metric.h"

namespace wide {
namespace {

class MeanLoss final : public Metric {
 public:
  explicit MeanLoss(const MetricTask& task)
      : task_(task), sum_(task.models.size(), 0), weights_(task.models.size(), 0) {}

  void add(const AnsweredRows& a) override {
    const Loss& loss = *task_.loss;
    for (size_t i = 0; i < sum_.size(); ++i) {
      const auto m = static_cast<int64_t>(i), model = task_.models[i];
      LossInputs in;
      in.output = a.outputs.at(loss.output)[m].to(at::kDouble);
      if (a.target.defined())
        in.target = loss.classifies() ? a.target[m] : a.target[m].to(at::kDouble);
      const auto own = [&](const Tensor& w, int64_t dims) {
        if (!w.defined()) return Tensor();
        return (w.dim() > dims ? w[model] : w).to(at::kDouble);
      };
      in.weight = own(loss.weight, 1);
      in.pos_weight =
          own(loss.pos_weight, loss.pos_weight.defined() && in.output.dim() > 1 ? 1 : 0);
      if (task_.label_smoothing.at(i) > 0)
        in.label_smoothing = at::scalar_tensor(task_.label_smoothing[i], at::kDouble);
      const bool one_number = loss.name == "output" && in.output.dim() == 0;
      if (one_number) {  // the network's own mean over the rows of the batch
        const double rows = a.weight[m].sum().item<double>();
        sum_[i] += in.output.item<double>() * rows;
        weights_[i] += rows;
        continue;
      }
      in.row_weight = a.weight[m];
      const LossSums sums = loss_sums(loss, in);
      sum_[i] += sums.weighted.item<double>();
      weights_[i] += sums.weights.item<double>();
    }
  }
  std::vector<double> values() override {
    std::vector<double> all;
    for (size_t i = 0; i < sum_.size(); ++i) all.push_back(sum_[i] / weights_[i]);
    return all;
  }

 private:
  MetricTask task_;
  std::vector<double> sum_, weights_;
};

const bool registered = add_metric(
    {"loss", false, "the loss that is trained, over all rows", [](const Loss&) { return ""; },
     [](const MetricTask& task) { return std::make_unique<MeanLoss>(task); }});

}  // namespace
}  // namespace wide
