#pragma once
#include <optional>
#include <set>

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
  /// Sizes of one row: `values` without S (and N).
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

/// The parts of `parts`, which may be const: inputs, then the target and weights that it has.
template <class Parts>
auto all_parts(Parts& parts) {
  std::vector<decltype(&*parts.target)> all;
  for (auto& input : parts.inputs) all.push_back(&input);
  for (auto* part : {&parts.target, &parts.weight})
    if (*part) all.push_back(&**part);
  return all;
}

/// What the network expects of its data.
struct DataWanted {
  std::vector<TensorSpec> inputs;  // of one batch of one model
  bool knows_sizes = true;         // false: sizes follow from the data
  const Loss* loss = nullptr;
  at::ScalarType dtype = at::kFloat;
  /// Inputs that rows to predict need not have, as the answer is not computed from them.
  std::set<std::string> unread = {};
};

/// What the rows of a file are for. Rows to learn from may have folds and groups, by which they are
/// split; rows to predict need only inputs, and of those that the answer is not computed from zeros
/// stand for missing columns. Columns of folds, groups and weights are never inputs.
enum class RowsTo { learn, hold, predict };

/// Reads a file and matches its columns with forward's arguments. `trained`: columns of the
/// training data, which this file must have too; nullptr when the training data are read. Throws
/// Error for missing columns, and for unknown ones in a table whose remaining columns were all
/// features.
DataParts read_parts(const TrainOptions& options, const std::string& path, const DataWanted& wanted,
                     RowsTo what, const DataColumns* trained);

/// Keeps the slices of `count` models from `first` on of all columns that are [N, S, ...].
void take_models(DataParts* parts, int64_t first, int64_t count);

/// Names given to an option, which may be repeated and may hold commas.
std::vector<std::string> named_columns(const std::vector<std::string>& texts);

}  // namespace wide
