#pragma once
#include <string>

#include "app/train/inputs/data.h"
#include "app/train/inputs/network.h"

namespace wide {

/// What the data of a run are, as JSON: sizes, types and a hash of each column that it reads, of
/// large ones of some rows. Kept in the run, as its split and its normalisation depend on them.
std::string fingerprint(const TrainingData& data);

/// Stands for which rows are learned from, validated and tested.
std::string split_fingerprint(const TrainingData& data);

/// Stands for what both forms compute: operators, sizes and constants, not weights. "" for a
/// network that cannot be recorded, which the trainer refuses by its own words.
std::string network_fingerprint(const TrainNetwork& network);

/// In words, what differs first in the data of two fingerprints: "other values in column x"; "":
/// nothing does.
std::string data_difference(const std::string& one, const std::string& other);

/// Throws Error naming what is different in `now`, the fingerprint of `data`, from what was saved.
void check_same_data(const std::string& saved, const std::string& now, const TrainingData& data);

}  // namespace wide
