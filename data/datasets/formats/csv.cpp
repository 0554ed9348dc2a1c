#include "data/bytes/csv.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <filesystem>

#include "data/bytes/mapped_file.h"
#include "data/bytes/refuse.h"
#include "data/datasets/dataset.h"

namespace wide::csv_dataset {
namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53: smaller whole numbers are exact doubles

bool probe(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const MappedFile file(path);
  const std::string_view head = file.bytes().substr(0, 4096);
  const std::string_view line = head.substr(0, head.find('\n'));
  for (const char c : line)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') return false;
  return !line.empty();
}

/// A column as a tensor; int64 if all numbers are whole, as classes are.
at::Tensor to_tensor(const std::vector<double>& numbers) {
  bool whole = true;
  for (const double x : numbers)
    whole = whole && std::abs(x) < kExact && x == std::floor(x);  // false for NaN
  const auto count = static_cast<int64_t>(numbers.size());
  at::Tensor values = at::empty({count}, whole ? at::kLong : at::kDouble);
  if (whole)
    for (int64_t i = 0; i < count; ++i)
      values.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(numbers[static_cast<size_t>(i)]);
  else
    std::copy(numbers.begin(), numbers.end(), values.mutable_data_ptr<double>());
  return values;
}

Dataset load(const std::string& path) {
  const MappedFile file(path);
  CsvReader reader(file.bytes(), path);
  std::vector<std::vector<double>> columns(reader.names().size());
  std::vector<std::string_view> cells;
  while (reader.next(&cells))
    for (size_t c = 0; c < cells.size(); ++c) {
      double number = 0;
      if (!parse_number(cells[c], &number))
        refuse(path, fmt::format("line {}, column {}", reader.line(), printable(reader.names()[c])),
               cells[c].empty() ? "nothing" : printable(cells[c], 40), "a number",
               "drop the column or write numbers into it");
      if (std::isnan(number))
        refuse(path, fmt::format("line {}, column {}", reader.line(), printable(reader.names()[c])),
               "nan", "a number", "fill the gap or drop the row");
      columns[c].push_back(number);
    }
  Dataset data;
  data.table = true;
  for (size_t c = 0; c < columns.size(); ++c)
    data.columns.push_back({reader.names()[c], to_tensor(columns[c])});
  return data;
}

const bool registered = add_dataset_format({"CSV", {".csv"}, 9, probe, load});

}  // namespace
}  // namespace wide::csv_dataset
