#include "data/reports/suites/suite_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/reports/apart.h"
#include "data/reports/sweep/shape_axes.h"

namespace wide {
namespace {

SuiteCell cell_of(const Timing& timing, Status status, int64_t needed_bytes) {
  SuiteCell cell;
  cell.status = status;
  cell.timing = &timing;
  cell.peak_bytes = status == Status::ok ? timing.peak_bytes : needed_bytes;
  const auto& samples = timing.samples_ns;
  cell.samples = static_cast<int64_t>(samples.size());
  if (samples.empty()) return cell;
  const double count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double ns : samples) squares += (ns - mean) * (ns - mean);
  cell.mean_ms = mean * 1e-6;
  cell.std_ms = count > 1 ? std::sqrt(squares / (count - 1)) * 1e-6 : 0;
  cell.median_ns = timing.median_ns;
  return cell;
}

std::string form_of(const std::string& baseline) {
  return baseline == "loop" ? "vanilla" : baseline;
}

/// The trial of the form "compiled": the engine's choice, else the fastest correct, else the first.
const Trial* compiled(const Case& c) {
  const Trial* best = nullptr;
  for (const Trial& t : c.trials) {
    if (t.status == Status::ok && t.chosen) return &t;
    const bool better = t.status == Status::ok && (!best || best->status != Status::ok ||
                                                   t.timing.median_ns < best->timing.median_ns);
    if (!best || better) best = &t;
  }
  return best;
}

}  // namespace

int64_t SuiteRow::axis(const std::string& name, int64_t otherwise) const {
  const auto it = axes.find(name);
  return it == axes.end() ? otherwise : it->second;
}

SuiteCell SuiteRow::cell(const std::string& phase, const std::string& form) const {
  const auto of_phase = cells.find(phase);
  if (of_phase == cells.end()) return {};
  const auto it = of_phase->second.find(form);
  return it == of_phase->second.end() ? SuiteCell{} : it->second;
}

std::vector<SuiteRow> suite_rows(const SweepReport& report,
                                 const std::vector<std::string>& targets) {
  std::vector<SuiteRow> rows;
  const Apart apart(report.cases);
  for (const Case& c : report.cases) {
    if (std::find(targets.begin(), targets.end(), c.target) == targets.end()) continue;
    const auto axes = axes_of(c.shape);
    const size_t machine = apart.several() ? apart.number(c) + 1 : 0;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const SuiteRow& r) {
      return r.target == c.target && r.n == c.n && r.dtype == c.dtype && r.mode == c.mode &&
             r.device == c.device && r.axes == axes && r.machine == machine;
    });
    if (row == rows.end())
      row = rows.insert(
          row, SuiteRow{c.target, c.shape, c.n, c.dtype, c.mode, c.device, axes, machine, {}, {}});
    auto& cells = row->cells[c.phase];
    row->cases[c.phase] = &c;
    for (const Timing& b : c.baselines) cells[form_of(b.name)] = cell_of(b, Status::ok, 0);
    for (const MissingBaseline& m : c.missing)
      cells[form_of(m.name)] = {.status = m.status, .peak_bytes = m.needed_bytes};
    const Trial* t = compiled(c);
    if (!t) continue;
    cells["compiled"] = cell_of(t->timing, t->status, t->needed_bytes);
    // An error before any form ran is the result of all forms.
    if (c.baselines.empty() && c.missing.empty() && t->status != Status::ok) {
      cells["vanilla"] = cells["compiled"];
      cells["vanilla"].timing = nullptr;
    }
  }
  return rows;
}

std::string suite_status(Status status) {
  if (status == Status::ok) return "success";
  if (status == Status::oom) return "OOM";
  return to_string(status);
}

}  // namespace wide
