#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/train/options.h"
#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// One of the N models: what makes it differ from the others.
struct ModelSettings {
  int64_t config = 0;                   // models that differ in seed and fold alone share it
  std::map<std::string, double> hyper;  // of the optimiser and the trainer, all of them
  uint64_t seed = 0, seed_init = 0, seed_order = 0, seed_dropout = 0;
  int64_t epochs = 0;                         // of its own; 0: as all have
  int64_t fold = -1;                          // learns without it; -1: there are none
  std::string name, weights;                  // of --models
  std::map<std::string, std::string> labels;  // its other columns
};

struct Configurations {
  std::vector<ModelSettings> models;
  std::vector<std::map<std::string, double>> configs;  // what was set, by configuration
  std::vector<std::string> varied;  // hyperparameters that differ between configurations
  std::set<std::string> said;       // keys that an option or the table of models gives
};

/// Among a model's hyperparameters, how many epochs it is trained, where a model says it: nothing
/// that the trainer knows.
inline constexpr const char* kOwnEpochs = "epochs";

/// The N models that the options ask for: configurations (`--grid`, lists, `--models`) × seeds ×
/// folds, in this order. `counts`: options that give one thing a model, and how many; 0: none.
/// `folds`: 0: none. Throws Error for counts that disagree, unknown keys, and keys that change the
/// program.
Configurations configure_models(const TrainOptions& options,
                                const std::vector<std::pair<std::string, int64_t>>& counts,
                                int64_t folds, double label_smoothing = 0);

/// What the column `weights` of a table of models names; empty where there is none. Throws Error
/// for a file that is no table.
std::vector<std::string> weights_of_table(const std::string& path);

}  // namespace wide
