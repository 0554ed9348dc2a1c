#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace wide {

/// A named array of a data set, over the file's own memory where its format allows.
struct DatasetColumn {
  std::string name;
  at::Tensor values;  // [S, ...], or [N, S, ...] where a user says that models have their own
};

/// What a data file holds. Which column is what (inputs, targets, folds) is for others to say.
struct Dataset {
  std::string path;
  std::vector<DatasetColumn> columns;
  /// The columns are those of a table, a number a row: `joined` puts several into one.
  bool table = false;

  /// nullptr: none of that name.
  const at::Tensor* find(const std::string& name) const;
  std::vector<std::string> names() const;
  /// Throws Error that names the nearest column.
  const at::Tensor& column(const std::string& name) const;
  /// Of one name its column; of several [S, F], each of them [S]. Throws Error.
  at::Tensor joined(const std::vector<std::string>& names) const;
};

/// A kind of file (or folder) that holds a data set. Registers itself at static initialisation.
struct DatasetFormat {
  std::string name;                     // "CSV"
  std::vector<std::string> extensions;  // ".csv", what people usually call such files
  int order = 0;                        // probed in this order; what any bytes may be comes last
  std::function<bool(const std::string& path)> probe;
  /// Reads and checks the file as a whole. Throws Error.
  std::function<Dataset(const std::string& path)> load;
};
bool add_dataset_format(DatasetFormat format);
const std::vector<DatasetFormat>& dataset_formats();

/// Opens a data set by what the file holds. Throws Error.
Dataset open_dataset(const std::string& path);

}  // namespace wide
