#pragma once
#include <string>

#include "app/train/inputs/data.h"
#include "app/train/inputs/network.h"

namespace wide {

/// A fingerprint of a run's data, as JSON: sizes, types and a hash of each column that is read (of
/// some rows if it is large). Saved with the run, whose split and normalisation depend on the data.
std::string fingerprint(const TrainingData& data);

/// A digest of the split: which rows are learned from, validated and tested.
std::string split_fingerprint(const TrainingData& data);

/// Digests of what a network computes: operators, sizes and constants, but not the weights. Empty
/// for a network that cannot be recorded; the trainer refuses it later, with the reason.
struct NetworkFingerprint {
  std::string both, evaluation;  // of both forms, and of the form for evaluation alone
};
NetworkFingerprint network_fingerprint(const TrainNetwork& network);

/// The first difference between two fingerprints in words, such as "other values in column x"; ""
/// if they are equal.
std::string data_difference(const std::string& one, const std::string& other);

/// Throws Error that names the difference if `now`, the fingerprint of `data`, is not the saved
/// one.
void check_same_data(const std::string& saved, const std::string& now, const TrainingData& data);

}  // namespace wide
