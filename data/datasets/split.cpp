#include "data/datasets/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "data/datasets/draws.h"
#include "engine/error.h"

namespace wide {
namespace {

void shuffle(Rows& rows, uint64_t seed, std::string_view what, uint64_t first = 0) {
  for (size_t i = rows.size(); i > 1; --i) {
    const uint64_t bits = draw_bits(seed, what, first + i);
    const auto k = static_cast<size_t>(bits % i);
    std::swap(rows[i - 1], rows[k]);
  }
}

/// Sets of rows to distribute one after the other: each class, shuffled, or all groups.
std::vector<std::vector<Rows>> strata(const Rows& rows, const RowKinds& kinds, uint64_t seed) {
  std::map<int64_t, Rows> by;
  const bool grouped = !kinds.groups.empty();
  const Rows& kind = grouped ? kinds.groups : kinds.classes;
  for (const int64_t row : rows)
    by[kind.empty() ? 0 : kind[static_cast<size_t>(row)]].push_back(row);
  std::vector<std::vector<Rows>> all;
  if (grouped) {
    Rows order(by.size());
    std::iota(order.begin(), order.end(), 0);
    shuffle(order, seed, "groups");
    std::vector<Rows> groups, stratum;
    for (auto& [key, members] : by) groups.push_back(std::move(members));
    for (const int64_t g : order) stratum.push_back(std::move(groups[static_cast<size_t>(g)]));
    all.push_back(std::move(stratum));
    return all;
  }
  uint64_t place = 0;
  for (auto& [key, members] : by) {
    shuffle(members, seed, "split", place += rows.size());
    std::vector<Rows> stratum;
    for (const int64_t row : members) stratum.push_back({row});
    all.push_back(std::move(stratum));
  }
  return all;
}

}  // namespace

Split hold_back(const Rows& rows, double fraction, const RowKinds& kinds, uint64_t seed,
                const std::string& option) {
  Split split;
  double owed = 0;  // rows to hold back so far, carried from class to class
  for (const auto& stratum : strata(rows, kinds, seed)) {
    double size = 0;
    for (const Rows& together : stratum) size += static_cast<double>(together.size());
    owed += size * fraction;
    for (const Rows& together : stratum) {
      const auto count = static_cast<double>(together.size());
      const bool held = owed >= count / 2 + 1e-9;
      if (held) owed -= count;
      auto& part = held ? split.held : split.train;
      part.insert(part.end(), together.begin(), together.end());
    }
  }
  if (split.held.empty() || split.train.empty())
    fail(
        "[{}] rows: got {} to learn from and {} held back, expected some of both; try another "
        "fraction",
        option, split.train.size(), split.held.size());
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.held.begin(), split.held.end());
  return split;
}

Rows assign_folds(int64_t all, const Rows& rows, int64_t folds, const RowKinds& kinds,
                  uint64_t seed) {
  const auto parts = strata(rows, kinds, seed);
  size_t units = 0;
  for (const auto& stratum : parts) units += stratum.size();
  if (units < static_cast<size_t>(folds))
    fail("[--folds] folds: got {} for {} {}, expected at most as many; try --folds {}", folds,
         units, kinds.groups.empty() ? "rows" : "groups", units);
  Rows fold_of(static_cast<size_t>(all), -1);
  std::vector<int64_t> sizes(static_cast<size_t>(folds), 0);
  size_t next = 0;
  for (auto stratum : parts) {
    // Large groups first, each to the smallest fold; rows of a class go to the folds in turn.
    std::stable_sort(stratum.begin(), stratum.end(),
                     [](const Rows& a, const Rows& b) { return a.size() > b.size(); });
    for (const Rows& together : stratum) {
      const auto least = std::min_element(sizes.begin(), sizes.end()) - sizes.begin();
      const size_t fold = kinds.groups.empty() ? next++ % sizes.size() : static_cast<size_t>(least);
      sizes[fold] += static_cast<int64_t>(together.size());
      for (const int64_t row : together)
        fold_of[static_cast<size_t>(row)] = static_cast<int64_t>(fold);
    }
  }
  return fold_of;
}

Rows shuffled(int64_t count, uint64_t seed, int64_t epoch) {
  Rows rows = all_rows(count);
  shuffle(rows, draw_bits(seed, "order", static_cast<uint64_t>(epoch)), "row");
  return rows;
}

Rows all_rows(int64_t count) {
  Rows rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace wide
