#include "app/explorer/models/trials/trials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/one_line.h"
#include "data/text.h"

namespace wide {
namespace {

/// The alphabetical rank of every word.
std::vector<double> places(const Words& words) {
  std::vector<int32_t> order(words.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return words[a] < words[b]; });
  std::vector<double> place(words.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[static_cast<size_t>(order[i])] = static_cast<double>(i);
  return place;
}

}  // namespace

std::vector<uint32_t> arrange(const TrialTable& table, const Filter& filter,
                              const std::vector<SortKey>& sort) {
  std::vector<uint32_t> rows = filter.rows(table);
  if (sort.empty()) return rows;
  const std::vector<double> place = places(table.words);
  // The numbers to sort by, row after row; missing ones come last in both directions.
  const size_t width = sort.size();
  std::vector<double> keys(table.rows.size() * width);
  for (const uint32_t row : rows)
    for (size_t k = 0; k < width; ++k) {
      const TableColumn& column = columns()[static_cast<size_t>(sort[k].column)];
      const TrialRow& r = table.rows[row];
      double value = column.word ? place[static_cast<size_t>(r.*column.word)] : column.number(r);
      if (column.word && r.*column.word == 0) value = TrialRow::kNone;
      if (std::isnan(value))
        value = std::numeric_limits<double>::infinity();
      else if (sort[k].descending)
        value = -value;
      keys[row * width + k] = value;
    }
  std::stable_sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) {
    for (size_t k = 0; k < width; ++k) {
      const double x = keys[a * width + k], y = keys[b * width + k];
      if (x != y) return x < y;
    }
    return false;
  });
  return rows;
}

void TrialsModel::set_table(std::shared_ptr<const TrialTable> table) {
  table_ = std::move(table);
  total_ = 0;
  if (table_)
    total_ = static_cast<size_t>(std::count_if(table_->rows.begin(), table_->rows.end(),
                                               [](const TrialRow& r) { return !r.baseline; }));
  shown_.clear();  // the rows belong to another table
  apply();
}

void TrialsModel::set_filter(const std::string& text, bool typing) {
  if (text == filter()) return;
  if (typing && typing_) {
    history_[now_] = text;
  } else {
    history_.resize(now_ + 1);
    history_.push_back(text);
    ++now_;
  }
  typing_ = typing;
  apply();
}

void TrialsModel::undo() {
  if (!can_undo()) return;
  --now_;
  apply();
}

void TrialsModel::redo() {
  if (!can_redo()) return;
  ++now_;
  apply();
}

void TrialsModel::set_sort(std::vector<SortKey> sort) {
  if (sort == sort_) return;
  sort_ = std::move(sort);
  apply();
}

void TrialsModel::apply() {
  error_.clear();
  Filter filter;
  try {
    filter = Filter(history_[now_]);
  } catch (const std::exception& e) {
    error_ = one_line(e);
    return;
  }
  applied_ = history_[now_];
  if (!table_) return;
  jobs_.start("arrange", [this, table = table_, filter, sort = sort_]() -> Jobs::Result {
    return [this, rows = arrange(*table, filter, sort), table]() mutable {
      if (table == table_) shown_ = std::move(rows);
    };
  });
}

}  // namespace wide
