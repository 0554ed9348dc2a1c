#pragma once
#include <string>

#include "data/reports/sweep/report_tables.h"

// What the HTML reports have in common: one file each, in light and dark, with sortable tables.
namespace wide {

/// Escapes text for use inside an element or attribute, on one line.
std::string html_escape(const std::string& text);
/// A sortable table. `kind` is the table's data-kind, for programs that read the page.
std::string html_table(const ReportTable& table, const std::string& kind);
/// The complete page. `body` is HTML and is not escaped.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace wide
