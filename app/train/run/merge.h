#pragma once
#include "app/train/run/saving.h"

namespace wide {

/// The run that those in `folders` are parts of (`train --part`), as one process would have saved
/// it at its end. Throws Error where they are not all of one plan, each once and at its end. Needs
/// no LibTorch: `parts` of what is returned names the folders, in order, for the tensors.
SavedRun merge_runs(const std::vector<std::string>& folders);

/// The same of slices that ranks train together and have saved after the same step, wherever that
/// is. Throws Error (exit code 1) where one of them is not there.
SavedRun merge_slices(const std::vector<std::string>& folders);

/// The models of `part` alone, which go on by themselves: `options` are theirs.
SavedRun cut_run(const SavedRun& whole, const std::string& folder, const TrainOptions& options);

/// "model 2 stopped ..." of a part whose first model is number `first` of all, as all number it.
std::string renumbered(const std::string& text, int64_t first);

/// The tensors of those parts put together, as `whole` has them; also those of `state`.
TrainerState merge_tensors(const std::vector<std::string>& folders, const Trainer& whole,
                           TrainState* state);

}  // namespace wide
