#pragma once
#include <cstdint>
#include <string>
#include <vector>

// Splits rows for training, validation and folds, and orders them. Results depend on a seed only,
// not on earlier draws.
namespace wide {

using Rows = std::vector<int64_t>;

/// Constraints of a split; both may be empty.
struct RowKinds {
  Rows classes;  // class of each row: all parts get equal shares of each class (stratified)
  Rows groups;   // group of each row: a group is never split; then classes are ignored
};

struct Split {
  Rows train, held;  // ascending
};

/// Holds back `fraction` (0 to 1) of `rows`. Throws Error if a part would be empty.
Split hold_back(const Rows& rows, double fraction, const RowKinds& kinds, uint64_t seed,
                const std::string& option);

/// The fold, 0 to `folds` - 1, of each row; -1 for rows that are not in `rows`. Throws Error if
/// there are fewer rows, or groups, than folds.
Rows assign_folds(int64_t all, const Rows& rows, int64_t folds, const RowKinds& kinds,
                  uint64_t seed);

/// 0 to count - 1 in a random order that depends on `seed` and `epoch`.
Rows shuffled(int64_t count, uint64_t seed, int64_t epoch);

Rows all_rows(int64_t count);

}  // namespace wide
