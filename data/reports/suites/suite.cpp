#include "data/reports/suites/suite.h"

#include <fmt/format.h>

#include "data/plot/scale.h"
#include "data/reports/sweep/report_tables.h"
#include "data/text.h"
#include "engine/program/registry.h"

namespace wide {

bool add_suite(Suite suite) { return enter(std::move(suite), &Suite::preset); }
const std::vector<Suite>& suites() { return registry<Suite>(); }

std::string ms(double value) { return fmt::format("{:.4f}", value); }
std::string times(double value) { return fmt::format("{:.3f}", value); }

std::string time_or_why(const SuiteCell& cell) {
  if (cell.ok()) return ms(cell.mean_ms);
  const std::string status = suite_status(cell.status);
  return cell.status == Status::oom ? status + " " + bytes_text(double(cell.peak_bytes)) : status;
}

std::string bytes_or_why(const SuiteCell& cell) {
  return cell.peak_bytes > 0 ? bytes_text(double(cell.peak_bytes)) : suite_status(cell.status);
}

std::string speedup_or_why(const SuiteCell& vanilla, const SuiteCell& other) {
  if (vanilla.ok() && other.ok()) return times(vanilla.median_ns / other.median_ns);
  return suite_status(other.ok() ? vanilla.status : other.status);
}

std::string suffix(const SuiteRow& row) {
  std::string device = row.device;
  std::erase(device, ':');
  return (row.dtype == "f32" ? "" : "-" + row.dtype) +
         (row.mode == "default" ? "" : "-" + row.mode) + (device == "cpu" ? "" : "-" + device) +
         (row.n == 1 ? "" : fmt::format("-n{}", row.n)) +
         (row.machine == 0 ? "" : fmt::format("-machine{}", row.machine));
}

Cells forms_of(const std::vector<SuiteRow>& rows) {
  Cells forms;
  for (const char* form : {"optimised", "torch.compile", "compiled"})
    if (std::any_of(rows.begin(), rows.end(), [&](const SuiteRow& row) {
          return std::any_of(row.cells.begin(), row.cells.end(),
                             [&](const auto& phase) { return phase.second.count(form) > 0; });
        }))
      forms.emplace_back(form);
  return forms;
}

void set_value(CurvePoint* p, const SuiteCell& cell, const SuiteCell& vanilla, Measure measure) {
  if (!cell.ok()) return;
  if (measure == Measure::memory) p->value = double(cell.peak_bytes);
  if (measure == Measure::speedup && vanilla.ok()) p->value = vanilla.median_ns / cell.median_ns;
  if (measure != Measure::time) return;
  p->value = cell.median_ns;
  if (!cell.timing) return;
  p->low = cell.timing->q1_ns;
  p->high = cell.timing->q3_ns;
}

Figure figure_along(const std::vector<SuiteRow>& rows, const std::string& axis,
                    const std::string& phase, Measure measure) {
  Figure figure;
  figure.measure = measure;
  figure.over = "vanilla";
  Cells forms = forms_of(rows);
  if (measure != Measure::speedup) forms.insert(forms.begin(), "vanilla");
  for (const std::string& form : forms) {
    Curve curve;
    curve.name = curve.strategy = form;
    curve.style = static_cast<int>(figure.curves.size());
    for (const SuiteRow& row : rows) {
      const SuiteCell cell = row.cell(phase, form), vanilla = row.cell(phase, "vanilla");
      CurvePoint p;
      p.n = static_cast<double>(row.axis(axis));
      set_value(&p, cell, vanilla, measure);
      if (!cell.ok() && cell.status == Status::oom)
        figure.notes.push_back(fmt::format("{} at {} is OOM: {} needed by estimate", form,
                                           short_number(p.n), bytes_text(double(cell.peak_bytes))));
      p.about = fmt::format("{} at {}", form, short_number(p.n));
      curve.points.push_back(p);
    }
    std::ranges::sort(curve.points, {}, &CurvePoint::n);
    figure.curves.push_back(std::move(curve));
  }
  return figure;
}

bool has_values(const Figure& figure) {
  return std::any_of(figure.curves.begin(), figure.curves.end(), [](const Curve& c) {
    return std::any_of(c.points.begin(), c.points.end(),
                       [](const CurvePoint& p) { return p.value.has_value(); });
  });
}

}  // namespace wide
