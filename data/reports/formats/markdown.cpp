#include <fmt/format.h>

#include <algorithm>

#include "data/escape.h"
#include "data/reports/report_format.h"
#include "data/reports/sweep/report_tables.h"

namespace wide::markdown_report {
namespace {

/// A code block, with a fence longer than any in the text.
std::string code(const std::string& text) {
  size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fence + "\n" + clean_text(text) + "\n" + fence + "\n\n";
}

std::string text(const SweepReport& report, const FigureOptions&) {
  std::string out = fmt::format("# Sweep {}\n\n{} cases, {}, {}.\n\n", markdown_escape(report.name),
                                report.cases.size(), markdown_escape(report.state),
                                markdown_escape(report.environment.date));
  if (!report.command.empty()) out += code(report.command);
  out += "## Summary\n\n" + summary_table(report).markdown();
  if (const std::string text = disturbed_text(report.cases); !text.empty())
    out += markdown_escape(text) + "\n\n";
  for (const auto& cases : target_groups(report.cases)) {
    out += fmt::format("## {}\n\n{}\n\n{}", markdown_escape(cases.front().target),
                       markdown_escape(common_text(cases)), timing_table(cases).markdown());
    out += crossover_table(cases).markdown();
    const ReportTable reasons = reason_table(cases);
    if (!reasons.rows.empty()) out += reasons.markdown();
  }
  out += "## Environment\n\n";
  for (const Environment* machine : machines_of(report)) {
    if (const std::string heading = machine_heading(report, *machine); !heading.empty())
      out += "### " + markdown_escape(heading) + "\n\n";
    out += environment_table(*machine).markdown();
  }
  for (const std::string& change : report.changes) out += "- " + markdown_escape(change) + "\n";
  return out;
}

const bool registered =
    add_report_format({"md", "Markdown: a table per target and a summary", text});

}  // namespace
}  // namespace wide::markdown_report
