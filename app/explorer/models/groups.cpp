#include "app/explorer/models/groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace wide {
namespace {

/// A number as the report has it: 0 where nothing was measured.
double or_zero(double value) { return std::isnan(value) ? 0 : value; }

Timing timing_of(const TrialTable& table, const TrialRow& row) {
  Timing t;
  t.name = table.word(row.strategy);
  t.kind = row.baseline ? "baseline" : "candidate";
  t.median_ns = or_zero(row.median_ns);
  t.q1_ns = or_zero(row.q1_ns);
  t.q3_ns = or_zero(row.q3_ns);
  t.first_call_ns = or_zero(row.first_call_ns);
  t.peak_bytes = static_cast<int64_t>(or_zero(row.peak_bytes));
  t.flops_share = or_zero(row.flops_share);
  t.bytes_share = or_zero(row.bytes_share);
  return t;
}

Trial trial_of(const TrialTable& table, const TrialRow& row) {
  Trial t;
  t.strategy = table.word(row.strategy);
  t.status = status_of(table.word(row.status));
  t.reason = table.word(row.reason);
  t.chosen = row.chosen;
  t.verdict = table.word(row.verdict);
  t.timing = timing_of(table, row);
  if (!std::isnan(row.vs_best)) {
    t.speedup = Speedup{
        {}, {row.vs_best, row.vs_best_low, row.vs_best_high}, table.word(row.best_baseline)};
    if (!std::isnan(row.vs_loop))
      t.speedup->vs_loop = {row.vs_loop, row.vs_loop_low, row.vs_loop_high};
  }
  if (!std::isnan(row.max_rel) || !std::isnan(row.tolerance)) {
    Correctness& c = t.correctness.emplace();
    // The store has no infinities: it keeps a NULL, which is read as NaN.
    c.max_rel = std::isnan(row.max_rel) ? HUGE_VAL : row.max_rel;
    c.eager_max_rel = or_zero(row.eager_max_rel);
    c.tolerance = or_zero(row.tolerance);
    c.isolated = row.isolated == 1;
    c.ordered = row.ordered == 1;
    c.pass = t.status == Status::ok;
  }
  return t;
}

}  // namespace

std::string Group::text() const {
  std::string out;
  for (const std::string* part : {&shape, &dtype, &device, &phase})
    if (!part->empty()) out += (out.empty() ? "" : " · ") + *part;
  return out;
}

std::vector<Group> groups_of(const TrialTable& table) {
  std::vector<Group> groups;
  std::map<std::array<int32_t, 5>, size_t> known;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TrialRow& r = table.rows[i];
    const auto [at, fresh] =
        known.try_emplace({r.target, r.shape, r.dtype, r.device, r.phase}, groups.size());
    if (fresh)
      groups.push_back({table.word(r.target),
                        table.word(r.shape),
                        table.word(r.dtype),
                        table.word(r.device),
                        table.word(r.phase),
                        {}});
    groups[at->second].rows.push_back(static_cast<uint32_t>(i));
  }
  return groups;
}

std::vector<Case> cases_of(const TrialTable& table, const Group& group) {
  std::vector<Case> cases;
  std::map<std::pair<int64_t, std::pair<int64_t, int32_t>>, size_t> known;
  for (const uint32_t index : group.rows) {
    const TrialRow& row = table.rows[index];
    const auto [at, fresh] = known.try_emplace({row.case_id, {row.n, row.mode}}, cases.size());
    if (fresh) {
      Case& c = cases.emplace_back();
      c.target = group.target;
      c.shape = group.shape;
      c.dtype = group.dtype;
      c.device = group.device;
      c.phase = group.phase;
      c.mode = table.word(row.mode);
      c.n = row.n;
      c.disturbed = row.disturbed;
      c.other_load = row.other_load;
    }
    Case& c = cases[at->second];
    if (row.baseline)
      c.baselines.push_back(timing_of(table, row));
    else
      c.trials.push_back(trial_of(table, row));
  }
  return cases;
}

Overview overview_of(const TrialTable& table, const std::vector<Group>& groups) {
  Overview overview;
  std::set<int64_t> ns;
  std::map<std::string, size_t> known;
  const int32_t ok = table.words.find("ok"), incorrect = table.words.find("incorrect"),
                unsupported = table.words.find("unsupported");
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto [at, fresh] = known.try_emplace(groups[g].target, overview.lines.size());
    if (fresh) {
      overview.lines.emplace_back().target = groups[g].target;
      overview.lines.back().group = g;
    }
    OverviewLine& line = overview.lines[at->second];
    for (const uint32_t index : groups[g].rows) {
      const TrialRow& row = table.rows[index];
      if (row.baseline) continue;
      ns.insert(row.n);
      OverviewCell& cell = line.cells[row.n];
      ++line.trials;
      if (row.status == incorrect) {
        ++cell.incorrect;
        ++line.incorrect;
      } else if (row.status == unsupported) {
        ++cell.unsupported;
      } else if (row.status != ok) {
        ++cell.failed;
        ++line.failed;
      } else {
        ++cell.right;
        if (!std::isnan(row.vs_best) && !(row.vs_best <= cell.speedup)) {
          cell.speedup = row.vs_best;
          cell.row = static_cast<int32_t>(index);
        }
      }
    }
  }
  overview.ns.assign(ns.begin(), ns.end());
  for (OverviewLine& line : overview.lines) {
    const OverviewCell* last = nullptr;
    for (const auto& [n, cell] : line.cells)
      if (cell.row >= 0) last = &cell;
    if (!last) continue;
    const TrialRow& best = table.rows[static_cast<size_t>(last->row)];
    line.fastest = table.word(best.strategy);
    line.best = best.vs_best;
    for (size_t g = 0; g < groups.size(); ++g)
      if (groups[g].target == line.target && groups[g].shape == table.word(best.shape) &&
          groups[g].dtype == table.word(best.dtype) &&
          groups[g].device == table.word(best.device) && groups[g].phase == table.word(best.phase))
        line.group = g;
    for (const Crossover& c : crossovers(cases_of(table, groups[line.group])))
      if (c.strategy == line.fastest && c.mode == table.word(best.mode)) line.crossover = c.n;
  }
  return overview;
}

}  // namespace wide
