#pragma once
#include <string>
#include <vector>

#include "data/datasets/split.h"

namespace wide {

/// For each model, the rows that it learns from, is validated on and is tested on; the latter two
/// are empty if the file has no column `use`.
struct OwnRows {
  std::vector<Rows> train, validation, test;
};

/// Reads the file of `--rows`: a data set with the columns `model` and `row`, and where rows are
/// held back `use`: 0 to learn, 1 to validate, 2 to test. Throws Error, also for a model without
/// rows, and for row numbers that are not below `rows`.
OwnRows read_own_rows(const std::string& path, int64_t rows);

}  // namespace wide
