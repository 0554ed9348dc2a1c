#include "app/explorer/models/trials/groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "data/reports/apart.h"
#include "data/reports/sweep/shape_axes.h"
#include "engine/error.h"

namespace wide {
namespace {

/// A number for the report, which has 0 for values that were not measured.
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

/// Whether a case was measured on several machines.
bool repeats(const TrialTable& table) {
  std::map<std::array<int64_t, 7>, int32_t> of_case;
  int64_t last = 0;
  for (const TrialRow& r : table.rows) {
    if (r.case_id == last || table.word(r.machine).empty()) continue;
    last = r.case_id;
    const auto [at, fresh] = of_case.try_emplace(
        {r.target, r.shape, r.dtype, r.device, r.mode, r.phase, r.n}, r.machine);
    if (at->second != r.machine) return true;
  }
  return false;
}

/// `Apart` for the rows of a table.
class RowsApart {
 public:
  explicit RowsApart(const TrialTable& table) : apart_(machines_of(table), repeats(table)) {
    for (const TrialRow& r : table.rows)
      if (const auto [at, fresh] = of_machine_.try_emplace(r.machine, 0); fresh)
        at->second = static_cast<int32_t>(apart_.number(table.word(r.machine)));
  }
  int32_t number(const TrialRow& row) const { return of_machine_.at(row.machine); }
  std::string name(const TrialRow& row) const {
    const std::string& name = apart_.name(static_cast<size_t>(number(row)));
    return !apart_.several() ? "" : name.empty() ? "machine not known" : name;
  }

 private:
  static std::vector<std::string> machines_of(const TrialTable& table) {
    std::set<int32_t> words;
    for (const TrialRow& r : table.rows) words.insert(r.machine);
    std::vector<std::string> machines;
    for (const int32_t word : words) machines.push_back(table.word(word));
    return machines;
  }

  Apart apart_;
  std::map<int32_t, int32_t> of_machine_;
};

}  // namespace

std::string Group::text() const {
  std::string out;
  const std::string models = axis == "N" ? "" : "N=" + std::to_string(n);
  for (const std::string* part : {&shape, &models, &dtype, &device, &phase, &machine})
    if (!part->empty()) out += (out.empty() ? "" : " · ") + *part;
  return out;
}

int64_t Group::place(const TrialTable& table, const TrialRow& row) const {
  return axis == "N" ? row.n : axes_of(table.word(row.shape))[axis];
}

std::vector<Group> groups_of(const TrialTable& table, const std::string& axis) {
  // A shape without the axis, and whether it has the axis.
  std::map<int32_t, std::pair<std::string, bool>> shapes;
  std::map<std::string, int32_t> numbers;
  std::map<int32_t, int32_t> rest;
  for (const TrialRow& r : table.rows) {
    const auto [at, fresh] = shapes.try_emplace(r.shape);
    if (!fresh) continue;
    const std::string& shape = table.word(r.shape);
    const bool has = axis != "N" && axes_of(shape).count(axis) > 0;
    at->second = {has ? without_axis(shape, axis) : shape, has};
    const std::string key = at->second.first + (has ? "|" : "");
    rest[r.shape] = numbers.try_emplace(key, static_cast<int32_t>(numbers.size())).first->second;
  }
  std::vector<Group> groups;
  std::map<std::pair<std::array<int32_t, 6>, int64_t>, size_t> known;
  const RowsApart apart(table);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TrialRow& r = table.rows[i];
    const auto& [shape, has] = shapes[r.shape];
    const int64_t n = has ? r.n : 0;
    const auto [at, fresh] = known.try_emplace(
        {{r.target, rest[r.shape], r.dtype, r.device, r.phase, apart.number(r)}, n}, groups.size());
    if (fresh)
      groups.push_back({table.word(r.target),
                        shape,
                        table.word(r.dtype),
                        table.word(r.device),
                        table.word(r.phase),
                        apart.name(r),
                        has ? axis : "N",
                        n,
                        {}});
    groups[at->second].rows.push_back(static_cast<uint32_t>(i));
  }
  return groups;
}

size_t group_with(const std::vector<Group>& groups, uint32_t row) {
  for (size_t g = 0; g < groups.size(); ++g)
    if (std::binary_search(groups[g].rows.begin(), groups[g].rows.end(), row)) return g;
  WIDE_ASSERT(false, "every row is in a group");
  return 0;
}

std::vector<Case> cases_of(const TrialTable& table, const Group& group) {
  std::vector<Case> cases;
  std::map<std::array<int64_t, 4>, size_t> known;
  for (const uint32_t index : group.rows) {
    const TrialRow& row = table.rows[index];
    const auto [at, fresh] =
        known.try_emplace({row.case_id, row.n, row.mode, row.shape}, cases.size());
    if (fresh) {
      Case& c = cases.emplace_back();
      c.target = group.target;
      c.shape = table.word(row.shape);
      c.dtype = group.dtype;
      c.device = group.device;
      c.phase = group.phase;
      c.mode = table.word(row.mode);
      c.n = row.n;
      c.machine = table.word(row.machine);
      c.disturbed = row.disturbed;
      c.other_load = row.other_load;
    }
    Case& c = cases[at->second];
    if (!row.baseline)
      c.trials.push_back(trial_of(table, row));
    else if (table.word(row.status) == "ok")
      c.baselines.push_back(timing_of(table, row));
    else
      c.missing.push_back({table.word(row.strategy), status_of(table.word(row.status)),
                           table.word(row.reason),
                           static_cast<int64_t>(or_zero(row.needed_bytes))});
  }
  return cases;
}

}  // namespace wide
