#pragma once
#include "app/train/prepare.h"

namespace wide {

/// Writes the evaluation form of all models as one wide program, normalisation included. `weights`:
/// [N, ...] by name, shared ones without N. A loss that is an output beside that of `--output` is
/// left out, and inputs that only it needs. The program takes every batch size that the network
/// does, or only the run's if it cannot be made dynamic. Returns a line for the user. Throws Error,
/// with exit code 4 if results differ from those of separate models.
std::vector<std::string> export_run(const Prepared& run,
                                    const std::map<std::string, Tensor>& weights,
                                    const std::vector<std::string>& paths);

}  // namespace wide
