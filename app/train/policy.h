#pragma once
#include <optional>

#include "app/sandbox/policy.h"
#include "app/train/train.h"

namespace wide {

/// The sandbox policy of a training: files to read, folders to write. nullopt if neither network
/// nor weights are files, so that no sandbox is needed.
std::optional<SandboxPolicy> policy_of(const TrainOptions& options, const TrainSinks& sinks,
                                       const SavedRun* saved);

/// Files that a run of these options reads.
std::vector<std::string> files_read(const TrainOptions& options);

/// Allows reading a data set: a file, or the arrays of a folder.
void add_data(const std::string& path, SandboxPolicy* policy);

}  // namespace wide
