// Σ w·l / Σ w over all rows, as in training
#include <ATen/ATen.h>

#include <optional>

#include "app/train/metrics/metric.h"
#include "engine/measure/vmapped.h"

namespace wide::loss_metrics {
namespace {

/// Computed for all models at once, since calling the operators for each model would cost more than
/// they compute.
class MeanLoss final : public Metric {
 public:
  explicit MeanLoss(const MetricTask& task) : task_(task) {
    sum_ = at::zeros({models()}, at::kDouble);
    weights_ = at::zeros_like(sum_);
  }

  void add(const AnsweredRows& a) override {
    const Loss& loss = *task_.loss;
    const Tensor output = a.outputs.at(loss.output).to(at::kDouble);
    if (loss.name == "output" && output.dim() == 1) {  // a mean that the network computed
      const Tensor rows = a.weight.sum(1);             // 0: the batch has no rows of this model
      sum_ += at::where(rows > 0, output * rows, at::zeros_like(output));
      weights_ += rows;
      return;
    }
    Tensor target = a.target;
    if (target.defined() && !loss.classifies()) target = target.to(at::kDouble);
    Tensors given{output, a.weight};
    std::vector<bool> shared{false, false};
    // An undefined tensor stands for the weight that only some losses have.
    const auto give = [&](const Tensor& tensor, bool same_for_all) -> std::optional<size_t> {
      if (!tensor.defined()) return std::nullopt;
      given.push_back(tensor);
      shared.push_back(same_for_all);
      return given.size() - 1;
    };
    const auto target_at = give(target, false), smoothing_at = give(a.label_smoothing, false),
               weight_at =
                   give(a.class_weight, !a.class_weight.defined() || a.class_weight.dim() < 2),
               pos_weight_at = give(
                   loss.pos_weight.defined() ? loss.pos_weight.to(at::kDouble) : Tensor(), true);
    const Tensors sums = vmapped(
        [&](const Tensors& own) -> Tensors {
          const auto at = [&](std::optional<size_t> k) { return k ? own[*k] : Tensor(); };
          const LossSums of = loss_sums(loss, {own[0], at(target_at), own[1], at(smoothing_at),
                                               at(weight_at), at(pos_weight_at)});
          return {of.weighted, of.weights};
        },
        given, shared, models());
    sum_ += sums[0];
    weights_ += sums[1];
  }
  std::vector<double> values() override { return to_numbers(sum_ / weights_); }

 private:
  int64_t models() const { return static_cast<int64_t>(task_.models.size()); }

  MetricTask task_;
  Tensor sum_, weights_;
};

const bool registered = add_metric({"loss", false, "the loss that is trained, over all rows",
                                    [](const Loss&) { return ""; }, metric_maker<MeanLoss>()});

}  // namespace
}  // namespace wide::loss_metrics
