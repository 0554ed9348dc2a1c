#pragma once
#include <algorithm>
#include <optional>

#include "app/train/inputs/parts.h"
#include "app/train/models/configurations.h"
#include "engine/train/trainer.h"

namespace wide {

/// (x - mean) / std of an input, kept with the run.
struct Normalization {
  std::string input;
  Tensor mean, std;       // float64 [G, ...] against a row's sizes; G: folds, models, or 1
  bool by_model = false;  // G is models, each with a column or rows of its own
};

/// The data of a run and its split. Row numbers refer to `train`; those of `validation` and `test`
/// refer to their own files, if they have some.
struct TrainingData {
  DataParts train;
  std::optional<DataParts> validation_file, test_file;
  int64_t folds = 0;
  Rows fold_of;                  // by row of `train`; empty: no folds
  bool by_model = false;         // rows are those of `--rows`
  std::vector<Rows> train_rows;  // by fold or model; one entry if all learn from the same rows
  std::vector<Rows> validation;  // the same, or one for all; empty rows: none
  std::vector<Rows> test;        // by model, or one for all; empty: none
  std::vector<Normalization> normalization;
  int64_t classes = 0;  // 0: targets are not classes
  // With --part: the first model's number among all, and the number of all models.
  int64_t first_model = 0, all_models = 0;

  /// The files that there are: of training, validation and test rows.
  std::vector<DataParts*> files();
  const DataParts& validation_parts() const { return validation_file ? *validation_file : train; }
  const DataParts& test_parts() const { return test_file ? *test_file : train; }
  /// Index of a model's entry in `train_rows`, `validation` or `test`.
  size_t group_of(const std::vector<ModelSettings>& models, int64_t model) const {
    if (by_model) return static_cast<size_t>(first_model + model);
    return static_cast<size_t>(std::max<int64_t>(0, models[static_cast<size_t>(model)].fold));
  }
  bool has_validation() const { return !validation.empty() && !validation[0].empty(); }
  /// Keeps `count` models from `first` on, and their slices of columns that are [N, S, ...].
  void take_models(int64_t first, int64_t count);
};

/// Reads, checks and splits. Throws Error naming file and column.
TrainingData read_training_data(const TrainOptions& options, const DataWanted& wanted);

/// How many folds the options ask for, before the data are read: 0 where a column says it.
int64_t asked_folds(const TrainOptions& options);

/// Statistics for `--normalize`, of the training rows alone.
void add_normalization(const TrainOptions& options, TrainingData* data);

/// The function that normalises a model's rows of an input, or an empty one. `group`: index of each
/// model in the statistics.
PrepareRows preparation(const TrainingData& data, const std::string& input,
                        const std::vector<int64_t>& group);

}  // namespace wide
