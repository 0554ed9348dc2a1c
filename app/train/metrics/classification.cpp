// accuracy_score, top_k_accuracy_score(k=5), f1_score(average="macro"), roc_auc_score(multi_class=
// "ovr", average="macro"); with two classes f1 and auc are those of class 1; of several logits a
// row these are of labels: a row is right where all its labels are, f1 and auc are means over
// labels; ece: expected calibration error of 15 bins of equal width
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/train/metrics/metric.h"

namespace wide::classification_metrics {
namespace {

std::string wants_classes(const Loss& loss) {
  return loss.classifies() || loss.name == "bce_with_logits"
             ? ""
             : "classes: cross_entropy, nll or bce_with_logits";
}

std::string wants_scores_of_classes(const Loss& loss) {
  return loss.classifies() ? "" : "cross_entropy or nll";
}

/// Outputs of R models, flattened to M positions: scores [R, M, C], classes [R, M], weights [R, M].
/// With several labels, consecutive positions belong to one row.
struct Flat {
  Tensor scores, classes, weights;
  int64_t labels = 1;
};

/// Flattens a batch. Under bce_with_logits each number becomes two scores [1 - p, p]. Values that
/// are not finite are replaced, so that scores can be sorted; such a model's metrics are NaN
/// anyway.
Flat flatten(const Loss& loss, const AnsweredRows& a) {
  const Tensor output = a.outputs.at(loss.output).to(at::kDouble).nan_to_num();
  const int64_t models = output.size(0), rows = output.size(1);
  Flat flat;
  if (loss.classifies()) {
    flat.scores = output.movedim(2, -1).reshape({models, -1, output.size(2)});
    flat.classes = a.target.reshape({models, -1});
  } else {
    const Tensor p = at::sigmoid(output).reshape({models, -1});
    flat.scores = at::stack({1 - p, p}, 2);
    flat.classes = a.target.reshape({models, -1}).gt(0.5).to(at::kLong);
  }
  const int64_t each = rows ? flat.classes.size(1) / rows : 0;
  flat.weights = a.weight.unsqueeze(2).expand({models, rows, each}).reshape({models, -1});
  if (!loss.classifies()) flat.labels = std::max<int64_t>(each, 1);
  if (loss.classifies())
    flat.weights = flat.weights * flat.classes.ne(loss.ignore_index).to(at::kDouble);
  flat.classes = flat.classes.clamp(0, flat.scores.size(2) - 1);
  return flat;
}

Tensor is_best(const Flat& flat) { return flat.scores.argmax(2).eq(flat.classes); }

Tensor is_among_best_five(const Flat& flat) {
  const int64_t k = std::min<int64_t>(5, flat.scores.size(2));
  const Tensor best = std::get<1>(flat.scores.topk(k, 2));
  return best.eq(flat.classes.unsqueeze(2)).any(2);
}

/// Weighted share of right answers: Σ w · right / Σ w.
class Share final : public Metric {
 public:
  Share(const MetricTask& task, Tensor (*right)(const Flat&)) : task_(task), is_right_(right) {}
  void add(const AnsweredRows& a) override {
    const Flat flat = flatten(*task_.loss, a);
    const auto by_row = [&](const Tensor& t) { return t.view({t.size(0), -1, flat.labels}); };
    const Tensor weights = by_row(flat.weights).select(2, 0);
    const Tensor right = (by_row(is_right_(flat)).all(2).to(at::kDouble) * weights).sum(1);
    add_to(&right_, right);
    add_to(&all_, weights.sum(1));
  }
  std::vector<double> values() override { return to_numbers(right_ / all_); }

 private:
  MetricTask task_;
  Tensor (*is_right_)(const Flat& flat);
  Tensor right_, all_;
};

/// Mean over the classes that occur in targets or answers. Of two classes, one logit or labels:
/// that of class 1, of labels the mean.
class F1 final : public Metric {
 public:
  explicit F1(const MetricTask& task) : task_(task) {}
  void add(const AnsweredRows& a) override {
    const Flat flat = flatten(*task_.loss, a);
    const int64_t classes = flat.scores.size(2), models = flat.scores.size(0);
    const Tensor label = at::arange(flat.classes.size(1), at::kLong).remainder(flat.labels);
    const Tensor cell = (label * classes + flat.classes) * classes + flat.scores.argmax(2);
    const Tensor counts = at::zeros({models, flat.labels * classes * classes}, at::kDouble)
                              .scatter_add_(1, cell, flat.weights)
                              .view({models, flat.labels, classes, classes});
    add_to(&confusion_, counts);
  }
  std::vector<double> values() override {
    const bool binary = confusion_.size(2) == 2;
    const auto own = [&](const Tensor& t) { return binary ? t.select(2, 1) : t.select(1, 0); };
    const Tensor hit = own(confusion_.diagonal(0, 2, 3)), is = own(confusion_.sum(3)),
                 said = own(confusion_.sum(2));
    const Tensor there = binary ? at::ones_like(is) : (is + said).gt(0);
    const Tensor f1 = at::where((is + said).gt(0), 2 * hit / (is + said), at::zeros_like(hit));
    return to_numbers(f1.sum(1) / there.sum(1));
  }

 private:
  MetricTask task_;
  Tensor confusion_;
};

/// Keeps all scores, since the area under the curve depends on their order.
class Auc final : public Metric {
 public:
  explicit Auc(const MetricTask& task) : task_(task) {}
  void add(const AnsweredRows& a) override {
    Flat flat = flatten(*task_.loss, a);
    if (task_.loss->name == "cross_entropy") flat.scores = at::softmax(flat.scores, 2);
    scores_.push_back(flat.scores);
    classes_.push_back(flat.classes);
    weights_.push_back(flat.weights);
    labels_ = flat.labels;
  }
  std::vector<double> values() override {
    const Tensor scores = at::cat(scores_, 1), classes = at::cat(classes_, 1),
                 weights = at::cat(weights_, 1);
    std::vector<double> all;
    for (int64_t m = 0; m < scores.size(0); ++m) {
      const int64_t count = scores.size(2);
      double sum = 0;
      const int64_t first = count == 2 ? 1 : 0;  // with two classes only the second's curve
      for (int64_t label = 0; label < labels_; ++label)
        for (int64_t c = first; c < count; ++c) {
          const auto own = [&](const Tensor& t) {
            return t.slice(0, label, std::nullopt, labels_).contiguous();
          };
          sum += area(own(scores[m].select(1, c)), own(classes[m].eq(c)), own(weights[m]));
        }
      all.push_back(sum / double(labels_ * (count - first)));
    }
    return all;
  }

 private:
  /// Area under the curve by trapezoids; NaN if there are only positives or only negatives.
  static double area(const Tensor& scores, const Tensor& is, const Tensor& weights) {
    const double* s = scores.const_data_ptr<double>();
    const double* w = weights.const_data_ptr<double>();
    const bool* positive = is.const_data_ptr<bool>();
    std::vector<int64_t> order(static_cast<size_t>(scores.numel()));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int64_t a, int64_t b) { return s[a] > s[b]; });
    double hits = 0, misses = 0, sum = 0;
    for (size_t i = 0; i < order.size();) {
      double more_hits = 0, more_misses = 0;
      size_t k = i;
      for (; k < order.size() && s[order[k]] == s[order[i]]; ++k)
        (positive[order[k]] ? more_hits : more_misses) += w[order[k]];
      sum += more_misses * (hits + more_hits / 2);
      hits += more_hits;
      misses += more_misses;
      i = k;
    }
    return sum / (hits * misses);
  }

  MetricTask task_;
  Tensors scores_, classes_, weights_;
  int64_t labels_ = 1;
};

class CalibrationError final : public Metric {
 public:
  explicit CalibrationError(const MetricTask& task) : task_(task) {}
  void add(const AnsweredRows& a) override {
    Flat flat = flatten(*task_.loss, a);
    if (task_.loss->name == "cross_entropy") flat.scores = at::softmax(flat.scores, 2);
    if (task_.loss->name == "nll") flat.scores = flat.scores.exp();
    const auto [confidence, said] = flat.scores.max(2);
    const Tensor bin = (confidence * kBins).ceil().sub(1).clamp(0, kBins - 1).to(at::kLong);
    const Tensor right = said.eq(flat.classes).to(at::kDouble);
    const auto binned = [&](const Tensor& what) {
      return at::zeros({bin.size(0), kBins}, at::kDouble).scatter_add_(1, bin, what);
    };
    add_to(&gap_, binned((right - confidence) * flat.weights));
    add_to(&all_, flat.weights.sum(1));
  }
  std::vector<double> values() override { return to_numbers(gap_.abs().sum(1) / all_); }

 private:
  static constexpr int64_t kBins = 15;
  MetricTask task_;
  Tensor gap_, all_;
};

[[maybe_unused]] const bool registered[] = {
    add_metric(
        {"accuracy", true, "share of right answers", wants_classes, metric_maker<Share>(is_best)}),
    add_metric({"top5", true, "share of rows whose class is among the best five",
                wants_scores_of_classes, metric_maker<Share>(is_among_best_five)}),
    add_metric({"f1", true, "mean over classes; of two, that of class 1", wants_classes,
                metric_maker<F1>()}),
    add_metric({"auc", true, "area under ROC, each class against the rest", wants_classes,
                metric_maker<Auc>()}),
    add_metric({"ece", false, "calibration error, 15 bins", wants_classes,
                metric_maker<CalibrationError>()})};

}  // namespace
}  // namespace wide::classification_metrics
