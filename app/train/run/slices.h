#pragma once
#include <string>
#include <vector>

#include "app/train/run/saving.h"

// The file of a run from files that hold some of its models each, and back.
namespace wide {

/// The tensors of `saved` as `trainer` has them, of its models among all that the file has; also
/// those of `state`.
TrainerState load_models(const SavedRun& saved, const std::string& folder, const Prepared& run,
                         const Trainer& trainer, TrainState* state);

/// Puts what `slices` have saved together as the file of the run of all models, which `options` ask
/// for, and returns where these stand. `run`: of one of them.
TrainState save_slices(const std::vector<std::string>& slices, const Prepared& run,
                       const TrainOptions& options);

}  // namespace wide
