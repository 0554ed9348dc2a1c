#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/explorer/models/jobs.h"
#include "app/explorer/models/trials/filter.h"

namespace wide {

/// A column to sort by; the first key counts most.
struct SortKey {
  int column = 0;
  bool descending = false;
  bool operator==(const SortKey&) const = default;
};

/// The rows that a filter leaves, sorted; rows without a value come last.
std::vector<uint32_t> arrange(const TrialTable& table, const Filter& filter,
                              const std::vector<SortKey>& sort);

/// The table of trials: which rows are shown, in which order. Filtering and sorting are jobs.
class TrialsModel {
 public:
  explicit TrialsModel(Jobs& jobs) : jobs_(jobs) {}

  void set_table(std::shared_ptr<const TrialTable> table);
  const TrialTable* table() const { return table_.get(); }
  std::shared_ptr<const TrialTable> shared_table() const { return table_; }

  const std::string& filter() const { return history_[now_]; }
  /// Sets the filter if it is valid; else `error` holds the reason. `undo` takes it back; changes
  /// with `typing` are one step.
  void set_filter(const std::string& text, bool typing = false);
  void end_typing() { typing_ = false; }
  const std::string& error() const { return error_; }
  /// The last valid filter, which the shown rows match.
  const std::string& applied() const { return applied_; }
  bool can_undo() const { return now_ > 0; }
  bool can_redo() const { return now_ + 1 < history_.size(); }
  void undo();
  void redo();

  const std::vector<SortKey>& sort() const { return sort_; }
  void set_sort(std::vector<SortKey> sort);

  /// Indices into the table's rows.
  const std::vector<uint32_t>& shown() const { return shown_; }
  size_t total() const { return total_; }

 private:
  void apply();

  Jobs& jobs_;
  std::shared_ptr<const TrialTable> table_;
  std::vector<std::string> history_ = {""};
  bool typing_ = false;
  size_t now_ = 0, total_ = 0;
  std::string error_, applied_;
  std::vector<SortKey> sort_;
  std::vector<uint32_t> shown_;
};

}  // namespace wide
