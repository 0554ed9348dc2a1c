#pragma once
#include <cstdint>
#include <string>
#include <vector>

// Which rows are for what. All depends on a seed, and on nothing drawn before.
namespace wide {

using Rows = std::vector<int64_t>;

/// What keeps rows together or even: both may be empty.
struct RowKinds {
  Rows classes;  // of each row: parts get the same share of each
  Rows groups;   // of each row: rows of one group go into one part, and classes do not count
};

struct Split {
  Rows train, held;  // ascending
};

/// Holds back `fraction` (0 to 1) of `rows`. Throws Error where a part would be empty.
Split hold_back(const Rows& rows, double fraction, const RowKinds& kinds, uint64_t seed,
                const std::string& option);

/// The fold, 0 to `folds` - 1, of each of `rows`; of rows that are not asked for -1. Throws Error
/// for fewer rows, or groups, than folds.
Rows assign_folds(int64_t all, const Rows& rows, int64_t folds, const RowKinds& kinds,
                  uint64_t seed);

/// 0 to count - 1 in an order that (`seed`, `epoch`) gives.
Rows shuffled(int64_t count, uint64_t seed, int64_t epoch);

Rows all_rows(int64_t count);

}  // namespace wide
