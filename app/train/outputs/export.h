#pragma once
#include "app/train/prepare.h"

namespace wide {

/// Writes the evaluation form of all models as one wide program with `weights` ([N, ...] by name,
/// shared ones without N), normalisation in it, for batches of every size that the network takes,
/// or of the run's size where its program allows no other. Returns what to tell the user. Throws
/// Error, with exit code 4 where its answers are not those of separate models.
std::vector<std::string> export_run(const Prepared& run,
                                    const std::map<std::string, Tensor>& weights,
                                    const std::vector<std::string>& paths);

}  // namespace wide
