#pragma once
#include <string>

#include "app/train/data.h"

namespace wide {

/// What the data of a run are, as JSON: sizes, types and a hash of each column that it reads, of
/// large ones of some rows. Kept in the run, as its split and its normalisation hang on them.
std::string fingerprint(const TrainingData& data);

/// Throws Error naming what has changed since `saved` was taken.
void check_same_data(const std::string& saved, const TrainingData& data);

}  // namespace wide
