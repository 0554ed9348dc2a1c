#include "app/explorer/models/columns.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

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
      {"target", "target", &Row::target, nullptr, nullptr, 130},
      {"shape", "shape", &Row::shape, nullptr, nullptr, 120},
      {"n", "N", nullptr, [](const Row& r) { return double(r.n); }, count, 44},
      {"strategy", "strategy", &Row::strategy, nullptr, nullptr, 110},
      {"status", "status", &Row::status, nullptr, nullptr, 92},
      {"speedup", "over best", nullptr, [](const Row& r) { return r.vs_best; }, ratio, 84},
      {"verdict", "verdict", &Row::verdict, nullptr, nullptr, 80},
      {"loop", "over loop", nullptr, [](const Row& r) { return r.vs_loop; }, ratio, 84},
      {"time", "time", nullptr, [](const Row& r) { return r.median_ns; }, time, 80},
      {"error", "error", nullptr, [](const Row& r) { return r.max_rel; }, error, 76},
      {"chosen", "chosen", nullptr, [](const Row& r) { return r.chosen ? 1.0 : 0.0; }, yes_no, 72},
      {"mode", "mode", &Row::mode, nullptr, nullptr, 74},
      {"dtype", "dtype", &Row::dtype, nullptr, nullptr, 64, false},
      {"device", "device", &Row::device, nullptr, nullptr, 70, false},
      {"phase", "phase", &Row::phase, nullptr, nullptr, 74, false},
      {"baseline", "best baseline", &Row::best_baseline, nullptr, nullptr, 110, false},
      {"low", "low", nullptr, [](const Row& r) { return r.vs_best_low; }, ratio, 70, false},
      {"high", "high", nullptr, [](const Row& r) { return r.vs_best_high; }, ratio, 70, false},
      {"compile", "first call", nullptr, [](const Row& r) { return r.first_call_ns; }, time, 86,
       false},
      {"memory", "memory", nullptr, [](const Row& r) { return r.peak_bytes; }, bytes, 80, false},
      {"needed", "needed", nullptr, [](const Row& r) { return r.needed_bytes; }, bytes, 80, false},
      {"flops", "of peak FLOP/s", nullptr, [](const Row& r) { return r.flops_share; }, share, 112,
       false},
      {"bytes", "of peak bytes/s", nullptr, [](const Row& r) { return r.bytes_share; }, share, 114,
       false},
      {"eager_error", "eager error", nullptr, [](const Row& r) { return r.eager_max_rel; }, error,
       96, false},
      {"tolerance", "tolerance", nullptr, [](const Row& r) { return r.tolerance; }, error, 84,
       false},
      {"isolated", "isolated", nullptr, [](const Row& r) { return flag(r.isolated); }, yes_no, 76,
       false},
      {"ordered", "ordered", nullptr, [](const Row& r) { return flag(r.ordered); }, yes_no, 76,
       false},
      {"disturbed", "others took", nullptr,
       [](const Row& r) { return r.disturbed ? r.other_load : TrialRow::kNone; }, share, 96, false},
      {"reason", "reason", &Row::reason, nullptr, nullptr, 360},
  };
  return all;
}

int column_index(const std::string& key) {
  static const std::map<std::string, std::string> others = {
      {"median", "time"},  {"over", "speedup"},  {"vs_best", "speedup"},
      {"vs_loop", "loop"}, {"max_rel", "error"}, {"models", "n"}};
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

std::string cell_csv(const TrialTable& table, const TrialRow& row, const TableColumn& column) {
  if (column.word) return csv_cell(table.word(row.*column.word));
  const double value = column.number(row);
  return std::isnan(value) ? "" : fmt::format("{}", value);
}

std::string csv_text(const TrialTable& table, const std::vector<uint32_t>& rows,
                     const std::vector<int>& of) {
  std::string text;
  const auto line = [&](const auto& cell) {
    for (size_t i = 0; i < of.size(); ++i)
      text += (i == 0 ? "" : ",") + cell(columns()[static_cast<size_t>(of[i])]);
    text += "\n";
  };
  line([](const TableColumn& c) { return c.key; });
  for (const uint32_t row : rows)
    line([&](const TableColumn& c) { return cell_csv(table, table.rows[row], c); });
  return text;
}

}  // namespace wide
