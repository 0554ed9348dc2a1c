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
struct Sums {
  Tensor rows, counted, absolute, squares;
  Tensor spread;  // [R, F]: Σ w (y - mean)², as far as rows were added
};

/// A metric that follows from the sums, as the mean over the numbers of a row.
class OfSums final : public Metric {
 public:
  OfSums(const MetricTask& task, Tensor (*each)(const Sums&)) : task_(task), each_(each) {}

  void add(const AnsweredRows& a) override {
    const Tensor output = a.outputs.at(task_.loss->output).to(at::kDouble);
    const int64_t models = output.size(0), rows = output.size(1);
    const Tensor x = output.reshape({models, rows, -1});
    const Tensor y = a.target.to(at::kDouble).reshape({models, rows, -1});
    const Tensor w = a.weight.unsqueeze(2);
    add_spread(y, w);
    add_to(&sums_.rows, w.sum(1));
    add_to(&sums_.counted, w.gt(0).sum(1));
    add_to(&sums_.absolute, ((x - y).abs() * w).sum(1));
    add_to(&sums_.squares, ((x - y).square() * w).sum(1));
  }
  std::vector<double> values() override { return to_numbers(each_(sums_).mean(1)); }

 private:
  /// Joins the mean and spread of these targets with those so far (Chan, Golub and LeVeque 1979),
  /// which stays exact for targets far from 0. They are measured from the first row that counts, so
  /// that equal targets have a spread of exactly 0.
  void add_spread(const Tensor& y, const Tensor& w) {
    const Tensor first =
        w.gt(0).to(at::kLong).argmax(1, /*keepdim=*/true).expand_as(y.narrow(1, 0, 1));
    const Tensor begin = y.gather(1, first);  // [R, 1, F]
    if (!sums_.spread.defined()) {
      shift_ = begin;
      mean_ = sums_.spread = at::zeros_like(y.select(1, 0));
      sums_.rows = at::zeros_like(w.select(1, 0));
    }
    shift_ = at::where(sums_.rows.gt(0).unsqueeze(1), shift_, begin);
    const Tensor more = w.sum(1), all = (sums_.rows + more).clamp_min(1e-300);
    const Tensor from = y - shift_;
    const Tensor mean = (from * w).sum(1) / more.clamp_min(1e-300);
    const Tensor apart = mean - mean_;
    sums_.spread = sums_.spread + ((from - mean.unsqueeze(1)).square() * w).sum(1) +
                   apart.square() * (sums_.rows * (more / all));
    mean_ = mean_ + apart * (more / all);
  }

  MetricTask task_;
  Tensor (*each_)(const Sums& sums);
  Sums sums_;
  Tensor shift_, mean_;  // [R, 1, F]; [R, F], from shift_
};

Tensor mean_absolute(const Sums& sums) { return sums.absolute / sums.rows; }

Tensor root_of_squares(const Sums& sums) { return (sums.squares / sums.rows).sqrt(); }

Tensor explained(const Sums& sums) {
  // A constant target has R² 1 if it is met exactly, else 0, as in scikit-learn.
  const Tensor constant = sums.squares.eq(0).to(at::kDouble);
  const Tensor r2 = at::where(sums.spread > 0, 1 - sums.squares / sums.spread, constant);
  return r2.masked_fill(sums.counted < 2, std::nan(""));  // one row has no variance
}

[[maybe_unused]] const bool registered[] = {
    add_metric(
        {"mae", false, "mean absolute error", wants_numbers, metric_maker<OfSums>(mean_absolute)}),
    add_metric({"rmse", false, "root of the mean squared error", wants_numbers,
                metric_maker<OfSums>(root_of_squares)}),
    add_metric({"r2", true, "share of the variance explained", wants_numbers,
                metric_maker<OfSums>(explained)})};

}  // namespace
}  // namespace wide::regression_metrics
