// mean_absolute_error, root_mean_squared_error, r2_score: means over the numbers of a row
#include <ATen/ATen.h>

#include <cmath>

#include "app/train/metrics/metric.h"

namespace wide::regression_metrics {
namespace {

std::string wants_numbers(const Loss& loss) {
  return loss.name == "mse" || loss.name == "l1" || loss.name == "huber" ? "" : "mse, l1 or huber";
}

/// Sums over the rows of each number that a row has, [R, F].
class Sums : public Metric {
 public:
  explicit Sums(const MetricTask& task) : task_(task) {}

  void add(const AnsweredRows& a) override {
    const Tensor output = a.outputs.at(task_.loss->output).to(at::kDouble);
    const int64_t models = output.size(0), rows = output.size(1);
    const Tensor x = output.reshape({models, rows, -1});
    const Tensor y = a.target.to(at::kDouble).reshape({models, rows, -1});
    const Tensor w = a.weight.unsqueeze(2);
    const auto put = [](Tensor& sum, const Tensor& more) {
      sum = sum.defined() ? sum + more : more;
    };
    if (!shift_.defined()) shift_ = y.narrow(1, 0, 1);  // subtracted, so that variances stay exact
    const Tensor from = y - shift_;
    put(rows_, w.sum(1));
    put(counted_, w.gt(0).sum(1));
    put(absolute_, ((x - y).abs() * w).sum(1));
    put(squares_, ((x - y).square() * w).sum(1));
    put(sum_, (from * w).sum(1));
    put(sum_of_squares_, (from.square() * w).sum(1));
  }

 protected:
  static std::vector<double> mean(const Tensor& each) {
    const Tensor all = each.mean(1).contiguous();
    return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
  }

  MetricTask task_;
  Tensor shift_, counted_, rows_, absolute_, squares_, sum_, sum_of_squares_;
};

class Mae final : public Sums {
 public:
  using Sums::Sums;
  std::vector<double> values() override { return mean(absolute_ / rows_); }
};

class Rmse final : public Sums {
 public:
  using Sums::Sums;
  std::vector<double> values() override { return mean((squares_ / rows_).sqrt()); }
};

class R2 final : public Sums {
 public:
  using Sums::Sums;
  std::vector<double> values() override {
    const Tensor total = sum_of_squares_ - sum_.square() / rows_;
    // A constant target has R² 1 if it is met exactly, else 0, as in scikit-learn.
    const Tensor constant = squares_.eq(0).to(at::kDouble);
    const Tensor r2 = at::where(total > 0, 1 - squares_ / total, constant);
    return mean(r2.masked_fill(counted_ < 2, std::nan("")));  // one row has no variance
  }
};

template <class Kind>
std::unique_ptr<Metric> make(const MetricTask& task) {
  return std::make_unique<Kind>(task);
}

[[maybe_unused]] const bool registered[] = {
    add_metric({"mae", false, "mean absolute error", wants_numbers, make<Mae>}),
    add_metric({"rmse", false, "root of the mean squared error", wants_numbers, make<Rmse>}),
    add_metric({"r2", true, "share of the variance explained", wants_numbers, make<R2>})};

}  // namespace
}  // namespace wide::regression_metrics
