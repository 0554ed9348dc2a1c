#include "data/datasets/dataset.h"

#include <ATen/ops/stack.h>

#include <filesystem>

#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/program/registry.h"

namespace wide {
const at::Tensor* Dataset::find(const std::string& name) const {
  for (const DatasetColumn& c : columns)
    if (c.name == name) return &c.values;
  return nullptr;
}

std::vector<std::string> Dataset::names() const { return names_of(columns); }

const at::Tensor& Dataset::column(const std::string& name) const {
  if (const at::Tensor* found = find(name)) return *found;
  fail("[{}] column: got {}, expected one of {}; try {}", printable(path), printable(name),
       listing(names(), 9), printable(nearest(name, names(), "one of these")));
}

at::Tensor Dataset::joined(const std::vector<std::string>& wanted) const {
  if (wanted.size() == 1) return column(wanted[0]);
  std::vector<at::Tensor> parts;
  for (const std::string& name : wanted) {
    const at::Tensor& part = column(name);
    if (part.dim() != 1)
      fail("[{}] column {}: got {}, expected a number a row to join it with others; try it alone",
           printable(path), printable(name), sizes_text(part.sizes()));
    if (!parts.empty() && part.size(0) != parts[0].size(0))
      fail("[{}] column {}: got {} rows, expected {} as {}; try columns of one length",
           printable(path), printable(name), part.size(0), parts[0].size(0), printable(wanted[0]));
    parts.push_back(part.is_floating_point() ? part : part.to(at::kDouble));
  }
  return at::stack(parts, 1);
}

bool add_dataset_format(DatasetFormat format) {
  return enter(std::move(format),
               [](const DatasetFormat& f) { return std::pair(f.order, f.name); });
}

Dataset open_dataset(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail("[{}] data: got no file, expected a data set; try another path", printable(path));
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == 0)
    fail("[{}] data: got an empty file, expected a data set; try another file", printable(path));
  for (const DatasetFormat& format : registry<DatasetFormat>()) {
    if (!format.probe(path)) continue;
    Dataset data = format.load(path);
    data.path = path;
    if (data.columns.empty())
      fail("[{}] data: got no column, expected at least one; try another file", printable(path));
    for (const DatasetColumn& column : data.columns)
      if (column.values.dim() == 0)
        fail(
            "[{}] column {}: got a single number, expected a row for each sample; try to leave "
            "it out",
            printable(path), printable(column.name));
    return data;
  }
  fail("[{}] data: got other bytes, expected {}; try to save it as one of them", printable(path),
       listing(names_of(registry<DatasetFormat>()), 9));
}

}  // namespace wide
