#pragma once
#include "app/train/inputs/network.h"
#include "app/train/models/configurations.h"

namespace wide {

/// Weights of the N models before the first step, and where they come from: "fresh", "file" or
/// "weights".
struct Start {
  std::map<std::string, StartTensor> tensors;
  std::string how;
  std::vector<std::string> notes;
};

/// Matches the globs of `--freeze` and `--no-decay` with names of parameters. Throws Error for a
/// glob that matches nothing.
std::set<std::string> matching(const std::string& option, const std::vector<std::string>& globs,
                               const std::vector<TensorSpec>& tensors);

/// Weights for each of `models`, which are those of `everyone` from `first` on. A tensor is shared
/// if all of `everyone` have it in common, so that a part of a run computes as the whole run does.
/// Throws Error that names a tensor if NET's values do not look freshly initialised and neither
/// --init nor --weights says what to do.
Start start_models(const TrainOptions& options, const TrainNetwork& network,
                   const std::vector<ModelSettings>& models, const std::set<std::string>& frozen,
                   const std::vector<ModelSettings>& everyone, int64_t first);

}  // namespace wide
