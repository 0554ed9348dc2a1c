#include "app/explorer/models/trials/columns.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "data/escape.h"

namespace wide {
namespace {

std::string ratio(double v) { return value_text(Measure::speedup, v); }
std::string time(double v) { return value_text(Measure::time, v); }
std::string bytes(double v) { return value_text(Measure::memory, v); }
std::string share(double v) { return value_text(Measure::roofline, v); }
std::string count(double v) { return fmt::format("{:.0f}", v); }
std::string error(double v) { return fmt::format("{:.2g}", v); }
std::string yes_no(double v) { return v != 0 ? "yes" : "no"; }

double flag(int8_t value) { return value < 0 ? TrialRow::kNone : value; }

using Row = TrialRow;

}  // namespace

const std::vector<TableColumn>& columns() {
  static const std::vector<TableColumn> all = {
      {"target", "target", &Row::target, nullptr, nullptr, 130,
       "What was made wide: a layer kind or a network."},
      {"shape", "shape", &Row::shape, nullptr, nullptr, 120,
       "The sizes of the case: batch, features and the like."},
      {"n", "N", nullptr, [](const Row& r) { return double(r.n); }, count, 44,
       "How many models run as one."},
      {"strategy", "strategy", &Row::strategy, nullptr, nullptr, 110,
       "The way the models were computed as one."},
      {"status", "status", &Row::status, nullptr, nullptr, 92,
       "How the trial ended: ok, or why it has no speedup."},
      {"speedup", "over best", nullptr, [](const Row& r) { return r.vs_best; }, ratio, 84,
       "How many times as fast as the best way of running the models separately."},
      {"verdict", "verdict", &Row::verdict, nullptr, nullptr, 80,
       "FASTER or SLOWER where the 95 % interval is sure of it, SAME within 3 %, else UNCLEAR."},
      {"loop", "over loop", nullptr, [](const Row& r) { return r.vs_loop; }, ratio, 84,
       "How many times as fast as calling the models one after another."},
      {"time", "time", nullptr, [](const Row& r) { return r.median_ns; }, time, 80,
       "Median time of one call for all models."},
      {"error", "error", nullptr, [](const Row& r) { return r.max_rel; }, error, 76,
       "The largest error against separate runs in double precision, relative to the answer."},
      {"chosen", "chosen", nullptr, [](const Row& r) { return r.chosen ? 1.0 : 0.0; }, yes_no, 72,
       "Whether the engine takes this strategy when nothing is forced."},
      {"mode", "mode", &Row::mode, nullptr, nullptr, 74,
       "How the program runs: planned ahead (default), operator by operator (eager), or tuned."},
      {"dtype", "dtype", &Row::dtype, nullptr, nullptr, 64, "The type of the numbers, as f32.",
       false},
      {"device", "device", &Row::device, nullptr, nullptr, 70, "Where it ran.", false},
      {"phase", "phase", &Row::phase, nullptr, nullptr, 74,
       "forward, backward, or a whole training step.", false},
      {"machine", "machine", &Row::machine, nullptr, nullptr, 240,
       "The machine that its case was measured on: host, processor, cores and GPU.", false},
      {"baseline", "best baseline", &Row::best_baseline, nullptr, nullptr, 110,
       "The fastest way of running the models separately.", false},
      {"speedup_low", "from", nullptr, [](const Row& r) { return r.vs_best_low; }, ratio, 70,
       "Lower end of the 95 % interval of the speedup over the best baseline.", false},
      {"speedup_high", "to", nullptr, [](const Row& r) { return r.vs_best_high; }, ratio, 70,
       "Upper end of the 95 % interval of the speedup over the best baseline.", false},
      {"loop_low", "loop from", nullptr, [](const Row& r) { return r.vs_loop_low; }, ratio, 84,
       "Lower end of the 95 % interval of the speedup over the loop.", false},
      {"loop_high", "loop to", nullptr, [](const Row& r) { return r.vs_loop_high; }, ratio, 84,
       "Upper end of the 95 % interval of the speedup over the loop.", false},
      {"compile", "first call", nullptr, [](const Row& r) { return r.first_call_ns; }, time, 86,
       "Time of the first call, with all that is done once.", false},
      {"memory", "memory", nullptr, [](const Row& r) { return r.peak_bytes; }, bytes, 80,
       "The most memory that one call held.", false},
      {"needed", "needed", nullptr, [](const Row& r) { return r.needed_bytes; }, bytes, 80,
       "The memory that it would need by estimate, where it did not fit.", false},
      {"flops", "of peak FLOP/s", nullptr, [](const Row& r) { return r.flops_share; }, share, 112,
       "Share of the machine's arithmetic peak, by the operations that the definition counts.",
       false},
      {"bytes", "of peak bytes/s", nullptr, [](const Row& r) { return r.bytes_share; }, share, 114,
       "Share of the machine's memory bandwidth, by the bytes that must move.", false},
      {"eager_error", "eager error", nullptr, [](const Row& r) { return r.eager_max_rel; }, error,
       96, "The error of the separate models themselves: float32 is not exact.", false},
      {"tolerance", "tolerance", nullptr, [](const Row& r) { return r.tolerance; }, error, 84,
       "The error that is still called right.", false},
      {"isolated", "isolated", nullptr, [](const Row& r) { return flag(r.isolated); }, yes_no, 76,
       "Whether nothing of one model reaches another.", false},
      {"ordered", "ordered", nullptr, [](const Row& r) { return flag(r.ordered); }, yes_no, 76,
       "Whether permuting the models permutes the answers.", false},
      {"disturbed", "others took", nullptr,
       [](const Row& r) { return r.disturbed ? r.other_load : TrialRow::kNone; }, share, 96,
       "Share of the cores that other programs took while it was timed.", false},
      {"reason", "reason", &Row::reason, nullptr, nullptr, 360, "Why the trial is not ok."},
  };
  return all;
}

bool shown_in_full(const TableColumn& column) {
  return column.text == count || column.text == yes_no;
}

int column_index(const std::string& key) {
  static const std::map<std::string, std::string> others = {
      {"median", "time"},   {"over", "speedup"}, {"vs_best", "speedup"}, {"vs_loop", "loop"},
      {"max_rel", "error"}, {"models", "n"},     {"low", "speedup_low"}, {"high", "speedup_high"}};
  const auto other = others.find(key);
  const std::string& name = other == others.end() ? key : other->second;
  for (size_t i = 0; i < columns().size(); ++i)
    if (columns()[i].key == name) return static_cast<int>(i);
  return -1;
}

std::string cell_text(const TrialTable& table, const TrialRow& row, const TableColumn& column) {
  if (column.word == &Row::verdict && row.disturbed)
    return row.baseline ? "disturbed" : table.word(row.verdict) + ", disturbed";
  if (column.word) return table.word(row.*column.word);
  const double value = column.number(row);
  return std::isnan(value) ? "" : column.text(value);
}

namespace {

std::string cell_csv(const TrialTable& table, const TrialRow& row, const TableColumn& column) {
  if (column.word) return csv_cell(table.word(row.*column.word));
  const double value = column.number(row);
  return std::isnan(value) ? "" : fmt::format("{}", value);
}

/// The head of a column in CSV, with its unit, as the numbers have none.
std::string csv_head(const TableColumn& column) {
  return column.key + (column.text == time    ? "_ns"
                       : column.text == bytes ? "_bytes"
                       : column.text == share ? "_share"
                                              : "");
}

/// These columns and those that every CSV file has, in the table's order.
std::vector<int> csv_columns(const std::vector<int>& shown) {
  std::set<int> all(shown.begin(), shown.end());
  for (const char* key : {"dtype", "device", "mode", "phase", "machine"})
    all.insert(column_index(key));
  for (const char* speedup : {"speedup", "loop"})
    if (all.count(column_index(speedup)))
      for (const char* end : {"_low", "_high"})
        all.insert(column_index(std::string(speedup) + end));
  return {all.begin(), all.end()};
}

}  // namespace

std::string csv_text(const TrialTable& table, const std::vector<uint32_t>& rows,
                     const std::vector<int>& shown) {
  const std::vector<int> of = csv_columns(shown);
  std::string text;
  const auto line = [&](const auto& cell) {
    for (size_t i = 0; i < of.size(); ++i)
      text += (i == 0 ? "" : ",") + cell(columns()[static_cast<size_t>(of[i])]);
    text += "\n";
  };
  line(csv_head);
  for (const uint32_t row : rows)
    line([&](const TableColumn& c) { return cell_csv(table, table.rows[row], c); });
  return text;
}

}  // namespace wide
