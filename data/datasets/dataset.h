#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace wide {

/// A named array of a data set, over the file's own memory where its format allows.
struct DatasetColumn {
  std::string name;
  at::Tensor values;  // [S, ...], or [N, S, ...] if each model has its own
};

/// The columns of a data file. Callers decide what each is used for (input, target, fold).
struct Dataset {
  std::string path;
  std::vector<DatasetColumn> columns;
  /// Whether the columns come from a table, one number in each row; `joined` stacks several.
  bool table = false;

  /// The column of this name; nullptr if there is none.
  const at::Tensor* find(const std::string& name) const;
  std::vector<std::string> names() const;
  /// The column of this name. Throws Error that names the most similar column.
  const at::Tensor& column(const std::string& name) const;
  /// For one name, its column; for several names of columns [S], their stack [S, F]. Throws Error.
  at::Tensor joined(const std::vector<std::string>& names) const;
};

/// A kind of file (or folder) that holds a data set. Registers itself at static initialisation.
struct DatasetFormat {
  std::string name;                     // "CSV"
  std::vector<std::string> extensions;  // ".csv", what people usually call such files
  int order = 0;                        // probed in this order; CSV last, as any text may be CSV
  std::function<bool(const std::string& path)> probe;
  /// Reads and checks the file as a whole. Throws Error.
  std::function<Dataset(const std::string& path)> load;
};
bool add_dataset_format(DatasetFormat format);

/// Opens a training run's data set; recognises the format by the contents. Throws Error.
Dataset open_dataset(const std::string& path);

}  // namespace wide
