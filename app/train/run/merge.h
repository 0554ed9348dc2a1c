#pragma once
#include "app/train/run/saving.h"

namespace wide {

/// The run whose parts (`train --part`) are in `folders`, as one process would have saved it at its
/// end. Throws Error unless the folders hold all parts of one run, each once and complete. Needs no
/// LibTorch: the result's `parts` names the folders, in order, whose tensors `load_models` joins.
SavedRun merge_runs(const std::vector<std::string>& folders);

/// The same for the slices of MPI ranks, all saved after the same step, which need not be the last.
/// Throws Error (exit code 1) if a slice is missing.
SavedRun merge_slices(const std::vector<std::string>& folders);

/// The state of the models of `part` alone, to be resumed as a run of its own with `options`.
SavedRun cut_run(const SavedRun& whole, const std::string& folder, const TrainOptions& options);

/// The models, evaluations and events of parts, in their order, as those of one run; no tensors.
TrainState merge_states(const std::vector<TrainState>& parts);

/// Renumbers the model in "model 2 stopped ...": a part's first model is number `first` of all.
std::string renumbered(const std::string& text, int64_t first);

}  // namespace wide
