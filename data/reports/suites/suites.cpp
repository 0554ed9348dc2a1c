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
  std::string page =
      fmt::format("# {}\n\n{} · LibTorch {} · {}\n\n", markdown_escape(report.name),
                  markdown_escape(machines_text(report)), report.environment.libtorch,
                  markdown_escape(report.environment.date));
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
    if (!rows.empty()) suite.add(report, rows, &pages, &page);
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
