#pragma once
#include "app/train/prepare.h"

namespace wide {

/// Computes every metric of `run` over a row set, for all models of the run. NaN for models that
/// the trainer is not running, and for those with an output that is not finite.
std::map<std::string, std::vector<double>> evaluate(const Prepared& run, Trainer& trainer,
                                                    const RowSet& set);

/// The same for the mean answer of `models`, as `predict` computes it: the mean of probabilities
/// under cross_entropy, nll and bce_with_logits, else of outputs. With folds each row is answered
/// by models that did not learn from it. Metrics that are not `of_answer` are left out. Class
/// weights are the mean of those of the models that answer. All models of the run must be running
/// in the trainer.
std::map<std::string, double> evaluate_ensemble(const Prepared& run, Trainer& trainer,
                                                const RowSet& set,
                                                const std::vector<int64_t>& models);

/// Whether models have rows of their own in `set`; then there is no mean answer.
bool has_own_rows(const Prepared& run, const RowSet& set);

/// Calls `take` with the running models' outputs for each batch of a row set.
void answer(const Prepared& run, Trainer& trainer, const RowSet& set,
            const std::function<void(const HeldBatch&, const Tensors& outputs)>& take);

}  // namespace wide
