#pragma once
#include <string>
#include <vector>

namespace wide {

// What the columns of `--models` and the keys of `--set` and `--grid` may be called, besides the
// names of hyperparameters.

/// Whether all models of a run share it: a batch size, an optimiser, sizes of layers. However it is
/// spelt: "Batch size" is "batch".
bool of_the_program(const std::string& key);

/// The key that others call so, as "lr" for "learning_rate"; "" for none.
std::string usual_key(const std::string& key);

/// One of `known` that `key` is too like to be another's label, or "".
std::string near_miss(const std::string& key, const std::vector<std::string>& known);

/// Whether the run's models.csv has a column of this name for every run.
bool of_every_table(const std::string& label);

}  // namespace wide
