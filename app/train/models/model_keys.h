#pragma once
#include <string>
#include <vector>

namespace wide {

// Names of columns of `--models` and of keys of `--set` and `--grid` that are no hyperparameters:
// which are labels, and which are refused as probable mistakes.

/// Whether the name stands for something that all models of a run share: batch size, optimiser,
/// sizes of layers. Spelling does not matter: "Batch size" is "batch".
bool of_the_program(const std::string& key);

/// The key that other programs call so: "lr" for "learning_rate"; "" if there is none.
std::string usual_key(const std::string& key);

/// The name in `known` of which `key` is probably a misspelling; "" if there is none.
std::string near_miss(const std::string& key, const std::vector<std::string>& known);

/// Whether the tables of models (models.csv, `report --csv`) have a column of this name for every
/// run.
bool of_every_table(const std::string& label);

}  // namespace wide
