#pragma once
#include <map>
#include <optional>

#include "app/train/options.h"
#include "data/datasets/split.h"
#include "data/reports/run/run.h"
#include "engine/network.h"
#include "engine/train/loss.h"

// Which columns of a data file are forward's arguments, the target and the weights of rows.
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
  DataColumns columns;
  std::vector<DataPart> inputs;
  std::optional<DataPart> target, weight;
  Rows fold, group;                 // of each row; empty: none
  std::vector<double> fold_values;  // of the column, by fold
  int64_t rows = 0;
  std::vector<std::string> notes;  // columns left out, columns taken by position
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

/// The parts of one file, matched with forward's arguments. `trained`: the columns of the training
/// data, which this file must have by name; nullptr for the training data themselves. Throws Error
/// for columns that lack, and for columns that training did not know in a table whose columns were
/// all features.
DataParts read_parts(const TrainOptions& options, const std::string& path, const DataWanted& wanted,
                     RowsTo what, const DataColumns* trained);

/// Of columns of each model's own, leaves those of `count` models from `first` on.
void take_models(DataParts* parts, int64_t first, int64_t count);

/// Names behind an option, which may be given several times and with commas.
std::vector<std::string> named_columns(const std::vector<std::string>& texts);

}  // namespace wide
