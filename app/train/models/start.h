#pragma once
#include "app/train/inputs/network.h"
#include "app/train/models/configurations.h"

namespace wide {

struct Prepared;

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

/// The weights of a run's models before the first step; when a run is resumed, its saved state
/// replaces their values. A tensor is shared if the models of all parts have it in common, so that
/// a part of a run computes as the whole run does. Throws Error that names a tensor if NET's values
/// do not look freshly initialised and neither --init nor --weights says what to do.
Start start_models(const Prepared& run);

}  // namespace wide
