#include "app/train/run/evaluate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "app/sandbox/sandbox.h"

namespace wide {

namespace {

/// Class weights of `models`: [R, C], or [C] if all have the same; undefined if the loss has none.
Tensor class_weights(const Loss& loss, const std::vector<int64_t>& models) {
  if (!loss.weight.defined()) return {};
  const Tensor exact = loss.weight.to(at::kDouble);
  return exact.dim() < 2 ? exact : exact.index_select(0, at::tensor(models, at::kLong));
}

/// Label smoothings of `models`, [R]; undefined if none is smoothed.
Tensor label_smoothings(const Loss& loss, const Trainer& trainer,
                        const std::vector<int64_t>& models) {
  if (loss.name != "cross_entropy") return {};
  std::vector<double> each;
  for (const int64_t m : models) each.push_back(trainer.hyperparameter("label_smoothing", m));
  const bool any = std::ranges::any_of(each, [](double s) { return s > 0; });
  return any ? at::tensor(each, at::kDouble) : Tensor();
}

/// Which of R models gave finite outputs for all rows. A class score of -inf is allowed: it
/// excludes the class.
class Answers {
 public:
  Answers(const Loss& loss, size_t models) : loss_(loss), lost_(models, false) {}
  void add(const AnsweredRows& a) {
    const Tensor output = a.outputs.at(loss_.output);
    if (!loss_.classifies() && loss_.name != "bce_with_logits") return;
    Tensor none = output.isfinite().logical_not();
    if (loss_.classifies()) none = none.logical_and(output.isneginf().logical_not());
    const Tensor counts = a.weight.gt(0);
    const Tensor rows = none.reshape({counts.size(0), counts.size(1), -1}).any(2);
    const Tensor lost = rows.logical_and(counts).any(1).contiguous();
    for (size_t i = 0; i < lost_.size(); ++i) lost_[i] = lost_[i] || lost.const_data_ptr<bool>()[i];
  }
  /// Sets metrics of the loss's output to NaN for models without finite outputs.
  void keep(const WantedMetric& metric, std::vector<double>* values) const {
    if (metric.output) return;
    for (size_t i = 0; i < lost_.size(); ++i)
      if (lost_[i]) (*values)[i] = std::nan("");
  }

 private:
  const Loss& loss_;
  std::vector<bool> lost_;
};

}  // namespace

void answer(const Prepared& run, Trainer& trainer, const RowSet& set,
            const std::function<void(const HeldBatch&, const Tensors&)>& take) {
  const int64_t batches = run.feed->held_batches(set);
  for (int64_t b = 0; b < batches; ++b) {
    heartbeat();
    const HeldBatch held = run.feed->held(set, b);
    take(held, trainer.evaluate(held.batch));
  }
}

std::map<std::string, std::vector<double>> evaluate(const Prepared& run, Trainer& trainer,
                                                    const RowSet& set) {
  const at::NoGradGuard no_grad;
  const Loss loss = run.loss.held();
  const MetricTask task{&loss, trainer.running()};
  const Tensor label_smoothing = label_smoothings(loss, trainer, task.models);
  std::vector<std::unique_ptr<Metric>> all;
  for (const WantedMetric& wanted : run.metrics) all.push_back(wanted.make(task));
  Answers there(loss, task.models.size());
  answer(run, trainer, set, [&](const HeldBatch& held, const Tensors& outputs) {
    AnsweredRows answers;
    answers.outputs = outputs;
    answers.class_weight = class_weights(loss, task.models);
    answers.label_smoothing = label_smoothing;
    run.feed->add_targets(set, held, task.models, &answers);
    there.add(answers);
    for (const auto& metric : all) metric->add(answers);
  });
  std::map<std::string, std::vector<double>> values;
  for (size_t k = 0; k < all.size(); ++k) {
    std::vector<double> every(static_cast<size_t>(run.n()), std::nan(""));
    std::vector<double> own = all[k]->values();
    there.keep(run.metrics[k], &own);
    for (size_t i = 0; i < own.size(); ++i) every[static_cast<size_t>(task.models[i])] = own[i];
    values[run.metrics[k].name] = std::move(every);
  }
  return values;
}

std::map<std::string, double> evaluate_ensemble(const Prepared& run, Trainer& trainer,
                                                const RowSet& set,
                                                const std::vector<int64_t>& models) {
  const at::NoGradGuard no_grad;
  const Loss loss = run.loss.held();
  std::vector<std::vector<int64_t>> groups(
      set.rows->size() > 1 ? static_cast<size_t>(run.data.folds) : 1);
  for (const int64_t m : models)
    groups[groups.size() > 1 ? static_cast<size_t>(run.feed->fold_of(m)) : 0].push_back(m);
  const MetricTask task{&loss, {0}};
  std::vector<const WantedMetric*> wanted;
  std::vector<std::unique_ptr<Metric>> all;
  for (const WantedMetric& metric : run.metrics) {
    if (!metric.of_answer) continue;
    wanted.push_back(&metric);
    all.push_back(metric.make(task));
  }
  Answers there(loss, 1);
  answer(run, trainer, set, [&](const HeldBatch& held, const Tensors& outputs) {
    for (const std::vector<int64_t>& group : groups) {
      if (group.empty()) continue;
      AnsweredRows answers;
      run.feed->add_targets(set, held, {group[0]}, &answers);
      answers.class_weight = class_weights(loss, group);
      if (answers.class_weight.defined() && answers.class_weight.dim() == 2)
        answers.class_weight = answers.class_weight.mean(0, /*keepdim=*/true);
      answers.label_smoothing = label_smoothings(loss, trainer, group);
      if (answers.label_smoothing.defined())
        answers.label_smoothing = answers.label_smoothing.mean(0, /*keepdim=*/true);
      const Tensor index = at::tensor(group, at::kLong);
      for (size_t k = 0; k < outputs.size(); ++k) {
        const Tensor own = outputs[k].index_select(0, index);
        answers.outputs.push_back(k == loss.output ? mean_answer(loss, own)
                                                   : own.to(at::kDouble).mean(0, true));
      }
      there.add(answers);
      for (const auto& metric : all) metric->add(answers);
    }
  });
  std::map<std::string, double> values;
  for (size_t k = 0; k < all.size(); ++k) {
    std::vector<double> own = all[k]->values();
    there.keep(*wanted[k], &own);
    values[wanted[k]->name] = own.at(0);
  }
  return values;
}

bool has_own_rows(const Prepared& run, const RowSet& set) {
  if (run.data.by_model && set.rows->size() > 1) return true;
  return std::ranges::any_of(all_parts(*set.parts), [](const DataPart* part) { return part->own; });
}

}  // namespace wide
