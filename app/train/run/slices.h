#pragma once
#include <string>
#include <vector>

#include "app/train/run/saving.h"

// Joins files of some models each into the file of the whole run, and takes such a file apart.
namespace wide {

/// The slices of `saved`'s tensors that belong to the models of `trainer`; fills in those of
/// `state` too. They lie in `folder`, or in the folders of its parts, which are joined.
TrainerState load_models(const SavedRun& saved, const std::string& folder, const Prepared& run,
                         const Trainer& trainer, TrainState* state);

/// Joins the files in the folders `slices` into the file of the run of all models, which has
/// `options`, and returns that run's state. `run`: one rank's part of it.
TrainState save_slices(const std::vector<std::string>& slices, const Prepared& run,
                       const TrainOptions& options);

}  // namespace wide
