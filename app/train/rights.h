#pragma once
#include <optional>

#include "app/cell/rights.h"
#include "app/train/train.h"

namespace wide {

/// What the files that training names take to be read and written; nullopt where the network and
/// the weights are no files.
std::optional<Rights> rights_of(const TrainOptions& options, const TrainSinks& sinks,
                                const SavedRun* saved);

/// Files that a run of these options reads.
std::vector<std::string> files_read(const TrainOptions& options);

/// A data set: a file, or the arrays of a folder.
void add_data(const std::string& path, Rights* rights);

}  // namespace wide
