#pragma once
#include "app/train/prepare.h"

namespace wide {

/// Every metric of `run` over a row set, by metric, for all models of the run: NaN for those that
/// the trainer does not have running, and for those whose answer to some row is no number.
std::map<std::string, std::vector<double>> evaluate(const Prepared& run, Trainer& trainer,
                                                    const RowSet& set);

/// The same of the models' mean answer, as `predict` gives it: of probabilities under
/// cross_entropy, nll and bce_with_logits, of outputs otherwise. Of folds each row is answered by
/// those models that never saw it. Class weights are the mean of those that the models which answer
/// were trained with. Of `models` alone; all models must run.
std::map<std::string, double> evaluate_ensemble(const Prepared& run, Trainer& trainer,
                                                const RowSet& set,
                                                const std::vector<int64_t>& models);

/// Whether models have rows of their own, of which no mean answer can be had.
bool has_own_rows(const Prepared& run, const RowSet& set);

/// Calls `take` with the outputs of the running models for each part of a row set.
void answer(const Prepared& run, Trainer& trainer, const RowSet& set,
            const std::function<void(const HeldBatch&, const Tensors& outputs)>& take);

}  // namespace wide
