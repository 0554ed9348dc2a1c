#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// Compact rows for tables of very many trials: numbers, and words stored once each.
namespace wide {

class Connection;

/// Numbers for words, in the order they come. Number 0 is the empty word.
class Words {
 public:
  Words() { number(""); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  Words(Words&&) = default;
  Words& operator=(Words&&) = default;

  int32_t number(std::string_view word);
  /// The number a word has, or -1.
  int32_t find(std::string_view word) const;
  const std::string& operator[](int32_t number) const {
    return *words_[static_cast<size_t>(number)];
  }
  size_t size() const { return words_.size(); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> words_;  // the keys above, which never move
};

/// A trial, or a baseline of its case, as one row. What was not measured is NaN.
struct TrialRow {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  int64_t trial = 0;    // number in the store; 0: a baseline, or it never ran
  int64_t case_id = 0;  // for `Store::load_case`
  int64_t n = 0;
  int32_t target = 0, shape = 0, dtype = 0, device = 0, mode = 0, phase = 0;  // words
  int32_t strategy = 0, status = 0, reason = 0, verdict = 0, best_baseline = 0;
  int32_t machine = 0;  // a word too; empty where it is not known
  bool baseline = false, chosen = false, disturbed = false;
  float other_load = 0;                // share of the cores
  int8_t isolated = -1, ordered = -1;  // -1: not checked
  double vs_best = kNone, vs_best_low = kNone, vs_best_high = kNone;
  double vs_loop = kNone, vs_loop_low = kNone, vs_loop_high = kNone;
  double median_ns = kNone, q1_ns = kNone, q3_ns = kNone, first_call_ns = kNone;
  double peak_bytes = kNone, flops_share = kNone, bytes_share = kNone;
  double max_rel = kNone, eager_max_rel = kNone, tolerance = kNone;
  double needed_bytes = kNone;  // by estimate, for trials that did not fit into memory
};

/// The rows of one sweep: first all trials, then all baselines, then all baselines that did not
/// run, each in the order of the cases; last the trials of cases that were interrupted.
struct TrialTable {
  int64_t sweep = 0;
  Words words;
  std::vector<TrialRow> rows;

  const std::string& word(int32_t number) const { return words[number]; }
};

/// Works inside the transaction that `Store` has opened. `Connection::read` makes one Error (exit
/// code 1) of SQLite's exceptions and JSON's.
TrialTable read_trial_table(Connection& connection, int64_t sweep);

}  // namespace wide
