#include "app/train/evaluate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "app/cell/cell.h"

namespace wide {

namespace {

/// Of `models` [R, C], or [C] where all have the same; undefined where the loss has none.
Tensor class_weights(const Loss& loss, const std::vector<int64_t>& models) {
  if (!loss.weight.defined()) return {};
  const Tensor exact = loss.weight.to(at::kDouble);
  return exact.dim() < 2 ? exact : exact.index_select(0, at::tensor(models, at::kLong));
}

}  // namespace

void answer(const Prepared& run, Trainer& trainer, const RowSet& set,
            const std::function<void(const HeldBatch&, const Tensors&)>& take) {
  const int64_t batches = run.feed->held_batches(set);
  for (int64_t b = 0; b < batches; ++b) {
    show_life();
    const HeldBatch held = run.feed->held(set, b);
    take(held, trainer.evaluate(held.batch));
  }
}

std::map<std::string, std::vector<double>> evaluate(const Prepared& run, Trainer& trainer,
                                                    const RowSet& set) {
  const at::NoGradGuard no_grad;
  MetricTask task{&run.loss.loss, trainer.running(), {}};
  for (const int64_t m : task.models)
    task.label_smoothing.push_back(
        run.loss.loss.name == "cross_entropy" ? trainer.hyperparameter("label_smoothing", m) : 0);
  std::vector<std::unique_ptr<Metric>> all;
  for (const WantedMetric& wanted : run.metrics) all.push_back(wanted.make(task));
  answer(run, trainer, set, [&](const HeldBatch& held, const Tensors& outputs) {
    AnsweredRows answers;
    answers.outputs = outputs;
    answers.class_weight = class_weights(run.loss.loss, task.models);
    run.feed->add_targets(set, held, task.models, &answers);
    for (const auto& metric : all) metric->add(answers);
  });
  std::map<std::string, std::vector<double>> values;
  for (size_t k = 0; k < all.size(); ++k) {
    std::vector<double> every(static_cast<size_t>(run.n()), std::nan(""));
    const std::vector<double> own = all[k]->values();
    for (size_t i = 0; i < own.size(); ++i) every[static_cast<size_t>(task.models[i])] = own[i];
    values[run.metrics[k].name] = std::move(every);
  }
  return values;
}

std::map<std::string, double> evaluate_ensemble(const Prepared& run, Trainer& trainer,
                                                const RowSet& set,
                                                const std::vector<int64_t>& models) {
  const at::NoGradGuard no_grad;
  const Loss& loss = run.loss.loss;
  std::vector<std::vector<int64_t>> groups(
      set.rows->size() > 1 ? static_cast<size_t>(run.data.folds) : 1);
  for (const int64_t m : models)
    groups[groups.size() > 1 ? static_cast<size_t>(run.feed->fold_of(m)) : 0].push_back(m);
  const MetricTask task{&loss, {0}, {0}};
  std::vector<std::unique_ptr<Metric>> all;
  for (const WantedMetric& wanted : run.metrics) all.push_back(wanted.make(task));
  answer(run, trainer, set, [&](const HeldBatch& held, const Tensors& outputs) {
    for (const std::vector<int64_t>& group : groups) {
      if (group.empty()) continue;
      AnsweredRows answers;
      run.feed->add_targets(set, held, {group[0]}, &answers);
      answers.class_weight = class_weights(loss, group);
      if (answers.class_weight.defined() && answers.class_weight.dim() == 2)
        answers.class_weight = answers.class_weight.mean(0, /*keepdim=*/true);
      const Tensor index = at::tensor(group, at::kLong);
      for (size_t k = 0; k < outputs.size(); ++k) {
        const Tensor own = outputs[k].index_select(0, index);
        answers.outputs.push_back(k == loss.output ? mean_answer(loss, own)
                                                   : own.to(at::kDouble).mean(0, true));
      }
      for (const auto& metric : all) metric->add(answers);
    }
  });
  std::map<std::string, double> values;
  for (size_t k = 0; k < all.size(); ++k) values[run.metrics[k].name] = all[k]->values().at(0);
  return values;
}

bool has_own_rows(const DataParts& parts) {
  const auto own = [](const DataPart& part) { return part.own; };
  return std::any_of(parts.inputs.begin(), parts.inputs.end(), own) ||
         (parts.target && parts.target->own) || (parts.weight && parts.weight->own);
}

}  // namespace wide
