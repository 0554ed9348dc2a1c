#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/train/options.h"
#include "engine/train/optimizer/optimizer.h"

namespace wide {

/// The settings of one of the N models.
struct ModelSettings {
  int64_t config = 0;                   // shared by models that differ only in seed and fold
  std::map<std::string, double> hyper;  // of the optimiser and the trainer, all of them
  uint64_t seed = 0, seed_init = 0, seed_order = 0, seed_dropout = 0;
  int64_t epochs = 0;                         // its own number; 0: the run's
  int64_t fold = -1;                          // the fold that is held back; -1: no folds
  std::string name, weights;                  // of --models
  std::map<std::string, std::string> labels;  // other columns of --models
};

struct Configurations {
  std::vector<ModelSettings> models;
  std::vector<std::map<std::string, double>> configs;  // what was set, by configuration
  std::vector<std::string> varied;  // hyperparameters that differ between configurations
  std::set<std::string> said;       // keys that an option or the table of models gives
};

/// The key for a model's own number of epochs. It stands among the hyperparameters, but the trainer
/// does not know it.
inline constexpr const char* kOwnEpochs = "epochs";

/// The N models that the options ask for: configurations (`--grid`, lists, `--models`) × seeds ×
/// folds, in this order. `counts`: other options that give one value for each model, and how many.
/// `folds` 0: no folds. Throws Error for counts that disagree, for unknown keys, and for keys that
/// all models share, such as the batch size.
Configurations configure_models(const TrainOptions& options,
                                const std::vector<std::pair<std::string, int64_t>>& counts,
                                int64_t folds, double label_smoothing = 0);

/// The files that the column `weights` of --models names; empty if there is no such column. Throws
/// Error for a file that is no table.
std::vector<std::string> weights_of_table(const std::string& path);

}  // namespace wide
