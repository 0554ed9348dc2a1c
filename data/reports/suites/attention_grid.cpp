#include <fmt/format.h>

#include <cmath>

#include "data/reports/suites/suite.h"

namespace wide::attention_grid_suite {
namespace {

/// The unit of `peak_memory_mb`, as torch.cuda.max_memory_allocated() / 1024**2 gives it.
constexpr double kMebibyte = 1024.0 * 1024.0;

/// The phase that took most memory, which is what a user needs for both.
SuiteCell largest_of(const SuiteRow& row, const std::string& form) {
  const SuiteCell forward = row.cell("forward", form), both = row.cell("backward", form);
  return both.peak_bytes > forward.peak_bytes ? both : forward;
}

std::vector<TableCell> attention_cells(const SuiteRow& row, const std::string& form) {
  const SuiteCell forward = row.cell("forward", form), both = row.cell("backward", form);
  const bool ran = row.cells.count("backward") > 0;
  std::vector<TableCell> cells{fmt::format("{}", row.axis("B")), fmt::format("{}", row.axis("T")),
                               fmt::format("{}", row.axis("D")),
                               std::string(form == "compiled" ? "True" : "False")};
  cells.push_back(forward.ok() ? ms(forward.mean_ms) : "");
  cells.push_back(forward.ok() ? ms(forward.std_ms) : "");
  // The time of the backward pass is that of both passes less that of the forward pass.
  // Where it is small beside both, noise can make that less than nothing, which is no time.
  const bool apart = forward.ok() && both.ok() && both.mean_ms > forward.mean_ms;
  cells.push_back(apart ? ms(both.mean_ms - forward.mean_ms) : "");
  cells.push_back(apart ? ms(std::hypot(both.std_ms, forward.std_ms)) : "");
  cells.push_back(both.ok() ? ms(both.mean_ms) : "");
  cells.push_back(fmt::format("{:.1f}", double(largest_of(row, form).peak_bytes) / kMebibyte));
  cells.push_back(suite_status(forward.ok() && ran ? both.status : forward.status));
  return cells;
}

SuitePart attention_part(const std::vector<SuiteRow>& rows) {
  ReportTable table({"batch_size", "seq_len", "d_model", "compiled", "forward_mean_ms",
                     "forward_std_ms", "backward_mean_ms", "backward_std_ms", "total_mean_ms",
                     "peak_memory_mb", "status"});
  ReportTable speedups(
      {"d_model", "seq_len", "forward", "forward and backward", "memory", "samples"});
  std::set<int64_t> widths;
  for (const SuiteRow& row : rows) {
    for (const char* form : {"vanilla", "compiled"})
      table.rows.push_back(attention_cells(row, form));
    widths.insert(row.axis("D"));
    const auto over = [&](const char* phase) {
      const SuiteCell compiled = row.cell(phase, "compiled");
      return speedup_or_why(row.cell(phase, "vanilla"), compiled) +
             (compiled.ok() ? " (" + ms(compiled.mean_ms) + " ms)" : "");
    };
    const bool both = row.cells.count("backward") && row.cell("backward", "compiled").ok();
    const char* phase = both ? "backward" : "forward";
    const SuiteCell a = row.cell(phase, "vanilla"), b = row.cell(phase, "compiled");
    speedups.rows.push_back({fmt::format("{}", row.axis("D")), fmt::format("{}", row.axis("T")),
                             over("forward"), over("backward"),
                             bytes_or_why(largest_of(row, "vanilla")) + " to " +
                                 bytes_or_why(largest_of(row, "compiled")),
                             fmt::format("{} and {}", a.samples, b.samples)});
  }
  std::vector<Figure> figures;
  for (const Measure measure : {Measure::time, Measure::speedup, Measure::memory})
    for (const char* phase : {"forward", "backward"})
      for (const int64_t width : widths) {
        std::vector<SuiteRow> own;
        for (const SuiteRow& row : rows)
          if (row.axis("D") == width && row.cells.count(phase)) own.push_back(row);
        if (own.empty()) continue;
        Figure figure = figure_along(own, "T", phase, measure);
        figure.title = fmt::format("attention, d_model {}", width);
        figure.subtitle = std::string(phase) == "backward" ? "forward and backward" : "forward";
        figure.axis = "seq_len";
        figures.push_back(std::move(figure));
      }
  constexpr const char* kUnits =
      "Speedups are of medians, compiled over vanilla; times are means. A kB here is 1000 bytes, "
      "an MB 1000 kB; peak_memory_mb in the CSV file is in units of 1024 * 1024 bytes.\n\n";
  return {table, kUnits + speedups.markdown(), std::move(figures)};
}

[[maybe_unused]] const bool registered = add_suite({"attention-grid", attention_part, "causal"});

}  // namespace
}  // namespace wide::attention_grid_suite
