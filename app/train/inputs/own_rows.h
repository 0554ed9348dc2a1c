#pragma once
#include <string>
#include <vector>

#include "data/datasets/split.h"

namespace wide {

/// Of each model the rows of the data that it learns from, and those that it is validated and
/// tested on; the latter two are empty where the file says none.
struct OwnRows {
  std::vector<Rows> train, validation, test;
};

/// Reads the file of `--rows`: a data set with the columns `model` and `row`, and where rows are
/// held back `use`: 0 to learn, 1 to validate, 2 to test. Throws Error, also for a model without
/// rows and for numbers that are none of the `rows` of the data.
OwnRows read_own_rows(const std::string& path, int64_t rows);

}  // namespace wide
