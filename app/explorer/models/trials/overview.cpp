#include "app/explorer/models/trials/overview.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "app/explorer/models/trials/filter.h"
#include "app/explorer/models/trials/groups.h"
#include "data/reports/sweep/report.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

class Maker {
 public:
  Maker(const TrialTable& table, const std::vector<TableAxis>& axes, const OverviewOptions& options)
      : table_(table), axes_(axes), options_(options) {
    const auto [rows, columns] = matrix_axes(axes);
    const TableAxis* chosen = find_axis(axes, options.columns);
    rows_ = find_axis(axes, options.rows);
    // Axes that the user did not choose keep their defaults, unless the other one uses it.
    if (!rows_) rows_ = find_axis(axes, chosen && chosen->name == rows ? columns : rows);
    columns_ = chosen && chosen != rows_ ? chosen
                                         : find_axis(axes, rows_->name == columns ? rows : columns);
    strategies_ = rows_->name == "strategy" || columns_->name == "strategy";
    made_.rows = rows_->name;
    made_.columns = columns_->name;
    made_.measure = options.measure;
    filter();
  }

  Overview make() {
    hold();
    for (size_t v = 0; v < columns_->values.size(); ++v) made_.heads.push_back(columns_->label(v));
    for (size_t i = 0; i < table_.rows.size(); ++i)
      if (kept(i)) add(static_cast<uint32_t>(i));
    for (auto& [value, line] : lines_)
      if (!line.cells.empty()) made_.lines.push_back(std::move(line));
    finish();
    return std::move(made_);
  }

 private:
  bool has(const TableAxis& axis, size_t row, const std::string& value) const {
    const int32_t at = axis.of_row[row];
    return at >= 0 && axis.values[static_cast<size_t>(at)] == value;
  }

  /// Keeps baselines if a trial of their case is kept.
  void filter() {
    if (options_.filter.empty()) return;
    try {
      const std::vector<uint32_t> rows = Filter(options_.filter).rows(table_);
      passed_.assign(table_.rows.size(), false);
      std::set<int64_t> cases;
      for (const uint32_t row : rows) {
        passed_[row] = true;
        cases.insert(table_.rows[row].case_id);
      }
      for (size_t i = 0; i < table_.rows.size(); ++i)
        if (table_.rows[i].baseline && cases.count(table_.rows[i].case_id)) passed_[i] = true;
    } catch (const Error&) {
      passed_.clear();
    }
  }

  bool kept(size_t row) const {
    if (!passed_.empty() && !passed_[row]) return false;
    return std::all_of(held_.begin(), held_.end(), [&](const auto& h) {
      return h.first->of_row[row] == static_cast<int32_t>(h.second);
    });
  }

  /// Finds the axes that can be held: those that all trials (of the held target) have.
  void hold() {
    const TableAxis* targets = find_axis(axes_, "target");
    const auto target = options_.held.find("target");
    const bool one =
        target != options_.held.end() && made_.rows != "target" && made_.columns != "target";
    for (const TableAxis& axis : axes_) {
      if (axis.name == "strategy" || axis.name == rows_->name || axis.name == columns_->name ||
          !axis.several())
        continue;
      std::set<int32_t> seen;
      for (size_t i = 0; i < table_.rows.size(); ++i)
        if (!one || &axis == targets || has(*targets, i, target->second))
          seen.insert(axis.of_row[i]);
      if (seen.size() < 2 || *seen.begin() < 0) continue;
      OverviewHold& hold = made_.holds.emplace_back(OverviewHold{axis.name, {}, ""});
      for (const int32_t value : seen) {
        hold.values.push_back(axis.values[static_cast<size_t>(value)]);
        const auto held = options_.held.find(axis.name);
        if (held == options_.held.end() || held->second != hold.values.back()) continue;
        hold.held = held->second;
        held_.push_back({&axis, static_cast<size_t>(value)});
      }
    }
  }

  double value_of(const TrialRow& row) const {
    return made_.measure == Measure::speedup ? row.vs_best
           : made_.measure == Measure::time  ? row.median_ns
                                             : row.peak_bytes;
  }

  void add(uint32_t index) {
    const TrialRow& row = table_.rows[index];
    const int32_t y = rows_->of_row[index], x = columns_->of_row[index];
    if (y < 0 || x < 0) return;
    if (row.baseline && (!strategies_ || made_.measure == Measure::speedup)) {
      if (row.status == ok_ || strategies_) return;
      const auto line = lines_.find(y);
      if (line == lines_.end()) return;
      const auto cell = line->second.cells.find(static_cast<size_t>(x));
      if (cell != line->second.cells.end()) cell->second.left_out = static_cast<int32_t>(index);
      return;
    }
    OverviewLine& line = lines_[y];
    if (line.trials == 0) {
      line.value = static_cast<size_t>(y);
      line.name = rows_->label(line.value);
      line.row = index;
    }
    OverviewCell& cell = line.cells[static_cast<size_t>(x)];
    ++line.trials;
    if (cell.first < 0) cell.first = static_cast<int32_t>(index);
    if (row.status == incorrect_) {
      ++cell.incorrect;
      ++line.incorrect;
    } else if (row.status == unsupported_) {
      ++cell.unsupported;
    } else if (row.status == oom_) {
      ++cell.oom;
      if (!(row.needed_bytes >= cell.needed)) cell.needed = row.needed_bytes;
    } else if (row.status == skipped_) {
      ++cell.skipped;
    } else if (row.status != ok_) {
      const bool ended = ending_of(table_.word(row.status)) != Ending::not_finished;
      ++(ended ? cell.failed : cell.not_finished);
      if (ended) ++line.failed;
    } else {
      ++cell.right;
      ++line.right;
      take(&cell, index, value_of(row));
    }
  }

  void take(OverviewCell* cell, uint32_t index, double value) const {
    const bool better =
        made_.measure == Measure::speedup ? !(value <= cell->value) : !(value >= cell->value);
    if (cell->row >= 0 && (std::isnan(value) || !better)) return;
    cell->row = static_cast<int32_t>(index);
    cell->value = value;
  }

  void finish() {
    made_.low = HUGE_VAL;
    made_.high = 0;
    const bool along_n = made_.columns == "N";
    const std::vector<Group> groups = along_n ? groups_of(table_) : std::vector<Group>();
    for (OverviewLine& line : made_.lines) {
      const OverviewCell* last = nullptr;
      for (const auto& [x, cell] : line.cells) {
        if (cell.row < 0 || std::isnan(cell.value)) continue;
        last = &cell;
        if (cell.value <= 0) continue;
        made_.low = std::min(made_.low, cell.value);
        made_.high = std::max(made_.high, cell.value);
      }
      if (!last) continue;
      line.row = static_cast<uint32_t>(last->row);
      const TrialRow& best = table_.rows[line.row];
      line.fastest = (best.baseline ? "baseline " : "") + table_.word(best.strategy);
      if (!along_n || made_.measure != Measure::speedup) continue;
      for (const Crossover& c : crossovers(cases_of(table_, groups[group_with(groups, line.row)])))
        if (c.strategy == line.fastest && c.mode == table_.word(best.mode)) line.crossover = c.n;
    }
    if (made_.high <= 0) made_.low = made_.high = 1;
  }

  const TrialTable& table_;
  const std::vector<TableAxis>& axes_;
  const OverviewOptions& options_;
  const TableAxis *rows_, *columns_;
  bool strategies_ = false;
  std::vector<bool> passed_;  // by row; empty: all
  std::vector<std::pair<const TableAxis*, size_t>> held_;
  std::map<int32_t, OverviewLine> lines_;
  Overview made_;
  const int32_t ok_ = table_.words.find("ok"), incorrect_ = table_.words.find("incorrect"),
                unsupported_ = table_.words.find("unsupported"), oom_ = table_.words.find("oom"),
                skipped_ = table_.words.find("skipped");
};

}  // namespace

std::string OverviewCell::text(Measure measure, const TrialTable& table) const {
  const std::string wrong = incorrect + failed > 0 ? "✗" : "";
  if (row >= 0) {
    const bool alone = left_out >= 0 && table.word(table.rows[size_t(left_out)].status) == "oom";
    const std::string said = !std::isnan(value) ? value_text(measure, value) : alone ? "fits" : "✓";
    return said + (wrong.empty() ? "" : " " + wrong);
  }
  if (!wrong.empty()) return wrong;
  return oom > 0 ? "OOM" : skipped > 0 ? "skipped" : not_finished > 0 ? "stopped" : "none";
}

double Overview::shade(double value) const {
  if (measure == Measure::speedup || !(value > 0) || !(high > low)) return value > 0 ? value : 1;
  const double place = std::log(value / low) / std::log(high / low);
  return std::exp2(4 - 8 * place);
}

std::vector<size_t> sorted_lines(const Overview& overview, const OverviewSort& sort) {
  using By = OverviewSort::By;
  constexpr double kMissing = TrialRow::kNone;
  std::vector<size_t> order(overview.lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (sort.by == By::cases) return order;
  const auto word = [&](const OverviewLine& line) {
    return sort.by == By::name ? line.name : sort.by == By::fastest ? line.fastest : "";
  };
  const auto number = [&](const OverviewLine& line) -> double {
    if (sort.by == By::pays_from)
      return line.crossover ? static_cast<double>(*line.crossover) : kMissing;
    if (sort.by == By::right)
      return line.trials > 0 ? double(line.incorrect + line.failed) / line.trials : kMissing;
    const auto cell = line.cells.find(sort.column);
    return sort.by != By::column || cell == line.cells.end() ? kMissing : cell->second.value;
  };
  const bool words = sort.by == By::name || sort.by == By::fastest;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const OverviewLine &x = overview.lines[a], &y = overview.lines[b];
    if (words) {
      const std::string u = word(x), v = word(y);
      if (u.empty() || v.empty()) return !u.empty() && v.empty();
      return sort.descending ? natural_less(v, u) : natural_less(u, v);
    }
    const double u = number(x), v = number(y);
    if (std::isnan(u) || std::isnan(v)) return !std::isnan(u) && std::isnan(v);
    return sort.descending ? v < u : u < v;
  });
  return order;
}

Overview overview_of(const TrialTable& table, const std::vector<TableAxis>& axes,
                     const OverviewOptions& options) {
  return Maker(table, axes, options).make();
}

}  // namespace wide
