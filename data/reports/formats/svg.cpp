#include <fmt/format.h>

#include "data/plot/svg_document.h"
#include "data/reports/report_format.h"
#include "data/reports/sweep/report_tables.h"

namespace wide::svg_report {
namespace {

std::string text(const SweepReport& report, const FigureOptions& options) {
  const Environment& e = report.environment;
  const std::string machine = fmt::format("{} · LibTorch {} · workbench {} · {} · 95 % bands",
                                          machines_text(report), e.libtorch, e.git, e.date);
  return svg_document(figures_of(report.cases, options), "sweep " + report.name, machine);
}

const bool registered =
    add_report_format({"svg", "plots: speedup versus N, and the error beside it", text});

}  // namespace
}  // namespace wide::svg_report
