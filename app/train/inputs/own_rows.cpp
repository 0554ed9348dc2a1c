#include "app/train/inputs/own_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "data/datasets/dataset.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// A column of integers below a bound, one for each row.
Rows whole_column(const Dataset& data, const std::string& name, int64_t below) {
  const std::string file = printable(data.path);
  const Tensor& column = data.column(name);
  if (column.dim() != 1)
    fail("[{}] column {}: got {} axes, expected a number a line; try [K]", file, name,
         column.dim());
  const Tensor exact = column.to(at::kDouble).contiguous();
  Rows numbers;
  const bool table = data.path.ends_with(".csv");  // its first line names the columns
  for (int64_t i = 0; i < exact.numel(); ++i) {
    const double value = exact.const_data_ptr<double>()[i];
    if (!(value >= 0 && value < double(below)) || value != std::floor(value))
      fail("[{}] column {}: got {} in {} {}, expected a whole number from 0 to {}; try another",
           file, name, value, table ? "line" : "entry", table ? i + 2 : i, below - 1);
    numbers.push_back(static_cast<int64_t>(value));
  }
  return numbers;
}

/// Refuses held-back rows that only some models have.
void check_all_or_none(const std::string& file, const std::vector<Rows>& rows, const char* what) {
  const auto none = [](const Rows& of) { return of.empty(); };
  const auto empty = std::ranges::find_if(rows, none);
  if (empty == rows.end() || std::ranges::all_of(rows, none)) return;
  fail("[{}] model {}: got no row to {}, expected some as the others have; try to add one", file,
       empty - rows.begin(), what);
}

/// Refuses rows that a model both learns and is validated or tested on: a metric over learned rows
/// says nothing about unseen ones.
void check_apart(const std::string& file, const std::vector<Rows>& learned,
                 const std::vector<Rows>& held, const char* uses) {
  for (size_t m = 0; m < held.size(); ++m) {
    Rows sorted = learned[m];
    std::ranges::sort(sorted);
    for (const int64_t row : held[m])
      if (std::binary_search(sorted.begin(), sorted.end(), row))
        fail("[{}] model {}: got row {} to {}, expected one use of it; try to leave one out", file,
             m, row, uses);
  }
}

}  // namespace

OwnRows read_own_rows(const std::string& path, int64_t rows) {
  constexpr int64_t kModels = 1 << 24;
  const Dataset data = open_dataset(path);
  const std::string file = printable(path);
  for (const std::string& name : data.names())
    if (name != "model" && name != "row" && name != "use")
      fail("[{}] column {}: got it, expected model, row and use alone; try to leave it out", file,
           printable(name));
  const Rows model = whole_column(data, "model", kModels), row = whole_column(data, "row", rows);
  const Rows use = data.find("use") ? whole_column(data, "use", 3) : Rows(model.size(), 0);
  if (model.size() != row.size() || model.size() != use.size() || model.empty())
    fail(
        "[{}] columns: got {} models, {} rows and {} uses, expected as many of each, and some; try "
        "a line for each row of each model",
        file, model.size(), row.size(), use.size());
  const auto n = static_cast<size_t>(*std::ranges::max_element(model) + 1);
  OwnRows own;
  std::vector<Rows>* const by_use[] = {&own.train, &own.validation, &own.test};
  for (std::vector<Rows>* part : by_use) part->resize(n);
  for (size_t i = 0; i < model.size(); ++i)
    (*by_use[use[i]])[static_cast<size_t>(model[i])].push_back(row[i]);
  for (size_t m = 0; m < n; ++m)
    if (own.train[m].empty())
      fail("[{}] model {}: got no row to learn from, expected some; try models counted from 0",
           file, m);
  check_all_or_none(file, own.validation, "validate");
  check_all_or_none(file, own.test, "test");
  check_apart(file, own.train, own.validation, "learn from and to validate");
  check_apart(file, own.train, own.test, "learn from and to test");
  check_apart(file, own.validation, own.test, "validate and to test");
  if (own.validation[0].empty()) own.validation.clear();
  if (own.test[0].empty()) own.test.clear();
  return own;
}

}  // namespace wide
