#include <fmt/format.h>

#include <utility>

#include "data/plot/svg_document.h"
#include "data/reports/html_page.h"
#include "data/reports/report_format.h"
#include "data/reports/sweep/report_tables.h"

namespace wide::html_report {
namespace {

std::string target_section(const std::vector<Case>& cases, size_t index,
                           const FigureOptions& options) {
  std::string out = fmt::format("<h2 id=\"t{}\">{} <span class=\"muted\">{}</span></h2>\n", index,
                                html_escape(cases.front().target), html_escape(common_text(cases)));
  for (Figure figure : figures_of(cases, options)) {
    figure.title = std::exchange(figure.subtitle, "");  // the target is a heading already
    out += svg_element(figure);
  }
  out += html_table(timing_table(cases), "timings");
  out += "<h3>Crossover</h3>\n" + html_table(crossover_table(cases), "crossover");
  const ReportTable reasons = reason_table(cases);
  if (!reasons.rows.empty()) out += "<h3>Not ok, and notes</h3>\n" + html_table(reasons, "reasons");
  return out;
}

std::string text(const SweepReport& report, const FigureOptions& options) {
  const Environment& e = report.environment;
  std::string targets, links;
  size_t index = 0;
  for (const auto& cases : target_groups(report.cases)) {
    links += fmt::format("<a href=\"#t{}\">{}</a>\n", index, html_escape(cases.front().target));
    targets += target_section(cases, index++, options);
  }
  std::string disturbed = html_escape(disturbed_text(report.cases));
  if (!disturbed.empty()) disturbed = "<p class=\"incorrect\">" + disturbed + "</p>\n";
  std::string changes;
  for (const std::string& change : report.changes)
    changes += fmt::format("<p class=\"incorrect\">{}</p>\n", html_escape(change));
  std::string environment;
  for (const Environment* machine : machines_of(report)) {
    if (const std::string heading = machine_heading(report, *machine); !heading.empty())
      environment += "<h3>" + html_escape(heading) + "</h3>\n";
    environment += html_table(environment_table(*machine), "environment");
  }
  const std::string body = fmt::format(
      "<h1>Sweep {0}</h1>\n"
      "<p class=\"muted\">{1} cases, {2} · {3} · {4} · LibTorch {5}</p>\n"
      "<nav>{6}</nav>\n<h3>To repeat it</h3>\n<pre>{7}</pre>\n<h3>Summary</h3>\n{8}{9}"
      "<h2>Environment</h2>\n{10}{11}",
      html_escape(report.name), report.cases.size(), html_escape(report.state), html_escape(e.date),
      html_escape(machines_text(report)), html_escape(e.libtorch), links,
      html_escape(report.command), html_table(summary_table(report), "summary") + disturbed,
      targets, changes, environment);
  return html_page("sweep " + report.name, body);
}

const bool registered = add_report_format(
    {"html", "one page: plots, sortable tables, environment, command line", text});

}  // namespace
}  // namespace wide::html_report
