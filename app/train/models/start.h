#pragma once
#include "app/train/inputs/network.h"
#include "app/train/models/configurations.h"

namespace wide {

/// Where the N models start, and how that was said: "fresh", "file" or "weights".
struct Start {
  std::map<std::string, StartTensor> tensors;
  std::string how;
  std::vector<std::string> notes;
};

/// Globs of `--freeze` and `--no-decay` against the names of parameters. Throws Error for one that
/// matches nothing.
std::set<std::string> matching(const std::string& option, const std::vector<std::string>& globs,
                               const std::vector<TensorSpec>& tensors);

/// Weights for every one of `models`, which `everyone` has from `first` on: what all of those share
/// is shared, so that a part computes as the whole does. Throws Error where NET's values are of no
/// default and nobody said what to do, naming the tensor.
Start start_models(const TrainOptions& options, const TrainNetwork& network,
                   const std::vector<ModelSettings>& models, const std::set<std::string>& frozen,
                   const std::vector<ModelSettings>& everyone, int64_t first);

}  // namespace wide
