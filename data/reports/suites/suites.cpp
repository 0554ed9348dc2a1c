#include "data/reports/suites/suites.h"

#include <fmt/format.h>

#include "data/escape.h"
#include "data/preset.h"
#include "data/reports/apart.h"
#include "data/reports/suites/suite.h"
#include "data/reports/sweep/report_tables.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

SuitePages suite_pages(const SweepReport& report) {
  SuitePages pages;
  const Environment& e = report.environment;
  const std::string footer =
      fmt::format("{} · LibTorch {} · {}", machines_text(report), e.libtorch, e.date);
  std::string page =
      fmt::format("# {}\n\n{} · LibTorch {} · {}\n\n", markdown_escape(report.name),
                  markdown_escape(machines_text(report)), e.libtorch, markdown_escape(e.date));
  std::vector<std::string> kinds;
  const Apart apart(report.cases);
  for (const Case& c : report.cases)
    if (apart.several() && apart.number(c) == kinds.size()) {
      kinds.push_back(apart.of(c));
      page += fmt::format("- machine{}: {}\n", kinds.size(), markdown_escape(kinds.back()));
    }
  if (!kinds.empty()) page += "\n";
  std::vector<std::string> names;
  for (const Suite& suite : suites()) {
    names.push_back(suite.preset);
    const auto rows = suite_rows(report, find_preset(suite.preset).targets);
    const auto key = [&](const SuiteRow& row) {
      return suite.preset + (row.axis(suite.axis) ? "-" + suite.axis : "") + suffix(row);
    };
    for (const auto& [name, own] : files_of(rows, key)) {
      SuitePart part = suite.part(own);
      for (Figure& figure : part.figures) figure.errors = false;
      pages.files.push_back({name + ".csv", part.table.csv()});
      pages.plots.push_back({name, name, footer, std::move(part.figures)});
      page += "## " + name + "\n\n" + part.text;
    }
  }
  if (pages.files.empty())
    fail("[--csv-suite] sweep: got {}, expected cases of a suite ({}); try workbench sweep {}",
         printable(report.name), listing(names, 9), names.front());
  if (const std::string text = disturbed_text(report.cases); !text.empty())
    page += markdown_escape(text) + "\n";
  pages.files.push_back({"suite.md", page});
  return pages;
}

}  // namespace wide
