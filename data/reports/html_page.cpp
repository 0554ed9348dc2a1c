#include "data/reports/html_page.h"

#include <fmt/format.h>

#include "data/escape.h"
#include "data/plot/svg.h"

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

// A click sorts a column, by its numbers if it has any; a second click reverses the order. Rows
// without a number stay last.
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

std::string cell_text(const TableCell& cell, bool right) {
  const bool marked = cell.text == "SLOWER" || cell.text == "FASTER" || cell.text == "incorrect" ||
                      cell.text == "crashed" || cell.text == "oom" || cell.text == "timeout";
  std::string classes = right ? "r" : "";
  if (marked) classes += (classes.empty() ? "" : " ") + cell.text;
  if (cell.text.size() > 60) classes += classes.empty() ? "long" : " long";
  return fmt::format(
      "<td{}{}>{}</td>", classes.empty() ? "" : fmt::format(" class=\"{}\"", classes),
      cell.value ? fmt::format(" data-v=\"{}\"", *cell.value) : "", html_escape(cell.text));
}

}  // namespace

std::string html_escape(const std::string& text) { return xml_escape(clean_text(text)); }

std::string html_table(const ReportTable& table, const std::string& kind) {
  std::string out = fmt::format("<div class=\"wide\"><table data-kind=\"{}\">\n<thead><tr>", kind);
  for (size_t i = 0; i < table.head.size(); ++i)
    out += fmt::format("<th{}>{}</th>", table.right[i] ? " class=\"r\"" : "",
                       html_escape(table.head[i]));
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

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
      "<style>\n{}{}</style>\n</head>\n<body>\n{}<script>\n{}</script>\n</body>\n</html>\n",
      html_escape(title), kStyle, SvgCanvas::style(), body, kScript);
}

}  // namespace wide
