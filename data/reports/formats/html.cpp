#include <fmt/format.h>

#include <utility>

#include "data/escape.h"
#include "data/plot/svg.h"
#include "data/plot/svg_document.h"
#include "data/reports/report_format.h"
#include "data/reports/report_tables.h"

namespace wide {
namespace {

constexpr const char* kStyle = R"(:root{color-scheme:light dark;--paper:#fff;--text:#1b1f24;
--muted:#5c6670;--grid:#e4e7eb;--head:#f5f6f8;--wrong:#b3261e;--good:#00795a}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--text:#e6e9ed;--muted:#9aa4af;
--grid:#2a3037;--head:#1d2126;--wrong:#ff8a80;--good:#4cc9a0}}
body{background:var(--paper);color:var(--text);font:14px/1.5 system-ui,'Segoe UI',Helvetica,Arial,
sans-serif;margin:0 auto;max-width:1240px;padding:24px}
h1{font-size:24px;margin:0}h2 .muted{font-size:13px;font-weight:400;margin-left:8px}h2{font-size:18px;margin:40px 0 8px;border-top:1px solid var(--grid);
padding-top:20px}h3{font-size:14px;margin:20px 0 4px}p{margin:4px 0}.muted{color:var(--muted)}
nav{margin:12px 0;line-height:1.9}nav a{margin-right:14px}a{color:inherit}
pre{background:var(--head);padding:10px 12px;border-radius:6px;white-space:pre-wrap;
overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;
font-size:13px;margin:8px 0}th,td{padding:3px 9px;text-align:left;white-space:nowrap;
border-bottom:1px solid var(--grid)}td.long{white-space:normal}
th{background:var(--head);font-weight:600;cursor:pointer;position:sticky;top:0}
th.r,td.r{text-align:right}th[aria-sort]:after{content:" \25B2";font-size:9px}
th[aria-sort=descending]:after{content:" \25BC"}
.baseline td{color:var(--muted)}.SLOWER,.incorrect,.crashed,.oom,.timeout{color:var(--wrong)}
.FASTER{color:var(--good)}svg{max-width:100%;height:auto;display:block}
)";

// A click sorts, a second one the other way round; by the number behind the text where there is
// one. Rows without it stay last.
constexpr const char* kScript = R"(document.querySelectorAll('th').forEach(th=>th.onclick=()=>{
const table=th.closest('table'),body=table.tBodies[0],i=th.cellIndex;
const down=th.getAttribute('aria-sort')==='ascending';
table.querySelectorAll('th').forEach(h=>h.removeAttribute('aria-sort'));
th.setAttribute('aria-sort',down?'descending':'ascending');
const key=row=>{const cell=row.cells[i],v=cell.dataset.v;
return v===undefined?(cell.textContent||null):Number(v)};
[...body.rows].sort((a,b)=>{const x=key(a),y=key(b);
if(x===null||y===null)return(x===null)-(y===null);
const order=typeof x==='number'&&typeof y==='number'?x-y:String(x).localeCompare(String(y));
return down?-order:order}).forEach(row=>body.append(row))});
)";

std::string escape(const std::string& text) { return xml_escape(clean_text(text)); }

std::string cell_text(const TableCell& cell, bool right) {
  const bool marked = cell.text == "SLOWER" || cell.text == "FASTER" || cell.text == "incorrect" ||
                      cell.text == "crashed" || cell.text == "oom" || cell.text == "timeout";
  std::string classes = right ? "r" : "";
  if (marked) classes += (classes.empty() ? "" : " ") + cell.text;
  if (cell.text.size() > 60) classes += classes.empty() ? "long" : " long";
  return fmt::format(
      "<td{}{}>{}</td>", classes.empty() ? "" : fmt::format(" class=\"{}\"", classes),
      cell.value ? fmt::format(" data-v=\"{}\"", *cell.value) : "", escape(cell.text));
}

std::string table_text(const ReportTable& table, const std::string& kind) {
  std::string out = fmt::format("<div class=\"wide\"><table data-kind=\"{}\">\n<thead><tr>", kind);
  for (size_t i = 0; i < table.head.size(); ++i)
    out +=
        fmt::format("<th{}>{}</th>", table.right[i] ? " class=\"r\"" : "", escape(table.head[i]));
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    bool baseline = false;
    std::string cells;
    for (size_t i = 0; i < row.size(); ++i) {
      cells += cell_text(row[i], table.right[i]);
      baseline |= table.head[i] == "kind" && row[i].text == "baseline";
    }
    out += fmt::format("<tr{}>{}</tr>\n", baseline ? " class=\"baseline\"" : "", cells);
  }
  return out + "</tbody></table></div>\n";
}

std::string target_section(const std::vector<Case>& cases, size_t index,
                           const FigureOptions& options) {
  std::string out = fmt::format("<h2 id=\"t{}\">{} <span class=\"muted\">{}</span></h2>\n", index,
                                escape(cases.front().target), escape(common_text(cases)));
  for (Figure figure : figures_of(cases, options)) {
    figure.title = std::exchange(figure.subtitle, "");  // the target stands above already
    out += svg_element(figure);
  }
  out += table_text(timing_table(cases), "timings");
  out += "<h3>Crossover</h3>\n" + table_text(crossover_table(cases), "crossover");
  const ReportTable reasons = reason_table(cases);
  if (!reasons.rows.empty()) out += "<h3>Not ok, and notes</h3>\n" + table_text(reasons, "reasons");
  return out;
}

std::string text(const SweepReport& report, const FigureOptions& options) {
  const Environment& e = report.environment;
  std::string targets, links;
  size_t index = 0;
  for (const auto& cases : target_groups(report.cases)) {
    links += fmt::format("<a href=\"#t{}\">{}</a>\n", index, escape(cases.front().target));
    targets += target_section(cases, index++, options);
  }
  std::string disturbed = escape(disturbed_text(report.cases));
  if (!disturbed.empty()) disturbed = "<p class=\"incorrect\">" + disturbed + "</p>\n";
  std::string changes;
  for (const std::string& change : report.changes)
    changes += fmt::format("<p class=\"incorrect\">{}</p>\n", escape(change));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width\">\n<title>sweep {0}</title>\n"
      "<style>\n{1}{2}</style>\n</head>\n<body>\n<h1>Sweep {0}</h1>\n"
      "<p class=\"muted\">{3} cases, {4} · {5} · {6}, {7} threads · {8} · LibTorch {9}</p>\n"
      "<nav>{10}</nav>\n<h3>To repeat it</h3>\n<pre>{11}</pre>\n<h3>Summary</h3>\n{12}{13}"
      "<h2>Environment</h2>\n{14}{15}<script>\n{16}</script>\n</body>\n</html>\n",
      escape(report.name), kStyle, SvgCanvas::style(), report.cases.size(), escape(report.state),
      escape(e.date), escape(e.cpu), e.threads, e.gpu.empty() ? "not run on a GPU" : escape(e.gpu),
      escape(e.libtorch), links, escape(report.command),
      table_text(summary_table(report), "summary") + disturbed, targets, changes,
      table_text(environment_table(e), "environment"), kScript);
}

const bool registered = add_report_format(
    {"html", "one page: plots, sortable tables, environment, command line", text});

}  // namespace
}  // namespace wide
