#pragma once
#include <map>
#include <optional>

#include "app/train/configurations.h"
#include "app/train/options.h"
#include "data/datasets/dataset.h"
#include "data/datasets/split.h"
#include "engine/train/trainer.h"

namespace wide {

/// An input of forward or a target: the values of all rows, and how they are brought into shape.
struct DataPart {
  std::string name;     // forward's argument; "target", "weight"
  std::string columns;  // where it comes from, for messages
  Tensor values;        // [S, ...], or [N, S, ...] where own
  bool own = false;
  bool whole = false;  // the file has whole numbers
  bool real = true;    // forward takes real numbers
  int64_t rows() const { return values.size(own ? 1 : 0); }
  /// Of one row, without S (and N).
  Sizes row_sizes() const { return values.sizes().slice(own ? 2 : 1).vec(); }
};

/// One file's parts.
struct DataParts {
  std::string file;
  std::vector<DataPart> inputs;
  std::optional<DataPart> target, weight;
  Rows fold, group;                 // of each row; empty: none
  std::vector<double> fold_values;  // of the column, by fold
  int64_t rows = 0;
};

/// (x - mean) / std of an input, kept with the run.
struct Normalization {
  std::string input;
  Tensor mean, std;  // float64 [G, ...] against a row's sizes; G: folds, models (own), or 1
};

/// What is learned, and on which rows. Row numbers count in `train`, but for those of `validation`
/// and `test` where these are files of their own.
struct TrainingData {
  DataParts train;
  std::optional<DataParts> validation_file, test_file;
  int64_t folds = 0;
  Rows fold_of;                  // by row of `train`; empty: no folds
  std::vector<Rows> train_rows;  // by fold; one where there are none
  std::vector<Rows> validation;  // the same; empty rows: none
  Rows test;                     // empty: none
  std::vector<Normalization> normalization;
  int64_t classes = 0;  // 0: the target is no class

  const DataParts& validation_parts() const { return validation_file ? *validation_file : train; }
  const DataParts& test_parts() const { return test_file ? *test_file : train; }
  bool has_validation() const { return !validation.empty() && !validation[0].empty(); }
};

/// What the network says of its data.
struct DataWanted {
  std::vector<TensorSpec> inputs;  // of one batch of one model
  bool knows_sizes = true;         // else the data say them
  const Loss* loss = nullptr;
  at::ScalarType dtype = at::kFloat;
};

/// What is asked of a file: folds and groups say how the rows to learn from are split, rows that
/// are predicted need no more than inputs. Columns that have such a meaning are never inputs.
enum class RowsTo { learn, hold, predict };

/// The parts of one file, matched with forward's arguments. Throws Error.
DataParts read_parts(const TrainOptions& options, const std::string& path, const DataWanted& wanted,
                     RowsTo what);

/// Reads, checks and splits. Throws Error naming file and column.
TrainingData read_training_data(const TrainOptions& options, const DataWanted& wanted);

/// How many folds the options ask for, before the data are read: 0 where a column says it.
int64_t asked_folds(const TrainOptions& options);

/// Statistics for `--normalize`, of the training rows alone.
void add_normalization(const TrainOptions& options, TrainingData* data);

/// What brings a model's rows of an input into shape, or an empty function. `group`: of each model
/// its place in the statistics.
std::function<void(int64_t, const Tensor&)> preparation(const TrainingData& data,
                                                        const std::string& input,
                                                        const std::vector<int64_t>& group);

}  // namespace wide
