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
    add_spread(y, w);
    put(rows_, w.sum(1));
    put(counted_, w.gt(0).sum(1));
    put(absolute_, ((x - y).abs() * w).sum(1));
    put(squares_, ((x - y).square() * w).sum(1));
  }

 protected:
  static std::vector<double> mean(const Tensor& each) {
    const Tensor all = each.mean(1).contiguous();
    return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
  }

  MetricTask task_;
  Tensor rows_, counted_, absolute_, squares_;
  Tensor spread_;  // [R, F]: Σ w (y - mean)², as far as rows were added

 private:
  /// Joins the mean and spread of these targets with those so far (Chan, Golub and LeVeque 1979),
  /// which stays exact for targets far from 0. They are measured from the first row that counts, so
  /// that equal targets have a spread of exactly 0.
  void add_spread(const Tensor& y, const Tensor& w) {
    const Tensor first =
        w.gt(0).to(at::kLong).argmax(1, /*keepdim=*/true).expand_as(y.narrow(1, 0, 1));
    const Tensor begin = y.gather(1, first);  // [R, 1, F]
    if (!spread_.defined()) {
      shift_ = begin;
      mean_ = spread_ = at::zeros_like(y.select(1, 0));
      rows_ = at::zeros_like(w.select(1, 0));
    }
    shift_ = at::where(rows_.gt(0).unsqueeze(1), shift_, begin);
    const Tensor more = w.sum(1), all = (rows_ + more).clamp_min(1e-300);
    const Tensor from = y - shift_;
    const Tensor mean = (from * w).sum(1) / more.clamp_min(1e-300);
    const Tensor apart = mean - mean_;
    spread_ = spread_ + ((from - mean.unsqueeze(1)).square() * w).sum(1) +
              apart.square() * (rows_ * (more / all));
    mean_ = mean_ + apart * (more / all);
  }

  Tensor shift_, mean_;  // [R, 1, F]; [R, F], from shift_
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
    // A constant target has R² 1 if it is met exactly, else 0, as in scikit-learn.
    const Tensor constant = squares_.eq(0).to(at::kDouble);
    const Tensor r2 = at::where(spread_ > 0, 1 - squares_ / spread_, constant);
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
