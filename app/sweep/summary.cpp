#include "app/sweep/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/results/table.h"
#include "app/sweep/text.h"
#include "app/sweep/user_network.h"
#include "data/escape.h"
#include "data/reports/apart.h"
#include "data/reports/sweep/report_tables.h"
#include "data/reports/sweep/summary_rows.h"
#include "data/text.h"

namespace wide {
namespace {

struct Row : SummaryRow {
  std::string label;
  int64_t ok = 0, no_result = 0, bad = 0;  // no result: left out or not finished
  double published = 0;
};

bool is_bad(const Trial& t) {
  const Ending ending = ending_of(t.status);
  return ending == Ending::incorrect || ending == Ending::failed;
}

/// Device, dtype, mode or phase, as far as the report has several of them.
std::string label_of(const Case& c, const std::vector<Case>& all, const Apart& apart) {
  std::string text = c.target;
  const auto add = [&](std::string Case::*field) {
    const bool varies =
        std::ranges::any_of(all, [&](const Case& o) { return o.*field != all.front().*field; });
    if (varies) text += " " + c.*field;
  };
  for (const auto field : {&Case::device, &Case::dtype, &Case::mode, &Case::phase}) add(field);
  return apart.several() ? text + " " + apart.of(c) : text;
}

double figure(const SummaryOptions& options, const Case& c) {
  const auto target = options.published.find(c.target);
  if (target == options.published.end()) return 0;
  const auto n = target->second.find(c.n);
  return n == target->second.end() ? 0 : n->second;
}

/// Published figures are compared for every N: then each has a line.
std::vector<Row> rows_of(const SweepReport& report, const SummaryOptions& options) {
  std::vector<Row> rows;
  const Apart apart(report.cases);
  const auto also = [&](const Case& first, const Case& c) {
    return figure(options, c) == 0 || first.n == c.n;
  };
  for (SummaryRow& found : summary_rows(report.cases, also)) {
    Row row;
    static_cast<SummaryRow&>(row) = std::move(found);
    row.label = label_of(*row.shown, report.cases, apart);
    row.published = figure(options, *row.shown);
    for (const Case* c : row.cases)
      for (const Trial& t : c->trials)
        ++(t.status == Status::ok ? row.ok : is_bad(t) ? row.bad : row.no_result);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// "timing 61 %, compiling 20 %, ...", of all the time the cases took.
std::string time_line(const SweepReport& report) {
  CaseSeconds sum;
  for (const Case& c : report.cases) {
    sum.setup += c.seconds.setup;
    sum.compile += c.seconds.compile;
    sum.check += c.seconds.check;
    sum.baselines += c.seconds.baselines;
    sum.timing += c.seconds.timing;
    sum.total += c.seconds.total;
  }
  if (!(sum.total > 0)) return "";
  const double rest = sum.total - sum.setup - sum.compile - sum.check - sum.baselines - sum.timing;
  std::string text = fmt::format("  time: {}:", duration_text(sum.total));
  for (const auto& [name, seconds] : {std::pair{"timing", sum.timing},
                                      {"compiling and tuning", sum.compile},
                                      {"checking", sum.check},
                                      {"baselines", sum.baselines},
                                      {"data and reference", sum.setup},
                                      {"workers", rest}})
    text += fmt::format("{} {} {:.0f} %", text.back() == ':' ? "" : ",", name,
                        100 * std::max(0.0, seconds) / sum.total);
  return text + "\n";
}

/// The target as `workbench trace` takes it, from any folder.
std::string traced(const Case& c, const std::vector<PresetNetwork>& networks) {
  for (const PresetNetwork& network : networks)
    if (user_target(network).name == c.target)
      return shell_word(network.file) +
             (network.inputs.empty() ? "" : " --inputs " + shell_word(network.inputs));
  return c.target;
}

/// The next step for the user: the command that shows the first failure, else one that uses the
/// results.
std::string next_line(const SweepReport& report, const std::vector<Row>& rows,
                      const std::vector<PresetNetwork>& networks) {
  for (const bool wrong : {true, false})
    for (const Case& c : report.cases)
      for (const Trial& t : c.trials)
        if (wrong ? t.status == Status::incorrect : is_bad(t))
          return fmt::format(
              "  next: workbench trace {} --wide {} shows the programs; first of {}: {} N={} {}\n",
              traced(c, networks), c.n, to_string(t.status), t.strategy, c.n,
              printable(t.reason, 90));
  for (const Row& row : rows)
    if (row.best)
      return fmt::format(
          "  next: workbench fuse MODEL -n {} --explain does it to a network of "
          "yours; workbench compare A B holds two sweeps together\n",
          row.shown->n);
  return "  next: the reasons above say what would run\n";
}

}  // namespace

std::string summary_text(const SweepReport& report, const SummaryOptions& options) {
  std::vector<Row> rows = rows_of(report, options);
  const bool published = !options.published.empty();
  const std::vector<Row> all = rows;
  size_t hidden = 0;
  if (options.top > 0) {
    std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
      const auto value = [](const Row& r) { return r.best ? r.best->speedup->vs_best.value : 0; };
      return value(a) > value(b);
    });
    // Targets with failures are always shown.
    const auto end =
        std::stable_partition(rows.begin() + std::min<ptrdiff_t>(options.top, std::ssize(rows)),
                              rows.end(), [](const Row& row) { return row.bad > 0; });
    hidden = static_cast<size_t>(rows.end() - end);
    rows.erase(end, rows.end());
  }
  std::vector<std::string> head = {
      "target", "N",   "shape", "best strategy", "over loop", "over best baseline",
      "ok",     "n/a", "bad"};
  if (published) head.push_back("published");
  Table table(head, {false, true, false, false, true, true, true, true, true, true});
  for (const Row& row : rows) {
    std::vector<std::string> cells = {row.label,
                                      fmt::format("{}", row.shown->n),
                                      row.shown->shape,
                                      row.best ? row.best->strategy : "none",
                                      row.best ? speedup_text(row.best->speedup->vs_loop) : "",
                                      row.best ? speedup_text(row.best->speedup->vs_best) : "",
                                      fmt::format("{}", row.ok),
                                      fmt::format("{}", row.no_result),
                                      fmt::format("{}", row.bad)};
    if (published) cells.push_back(row.published > 0 ? fmt::format("{}x", row.published) : "");
    if (row.shown->disturbed) cells[5] += " disturbed";
    table.add(cells);
  }
  const Environment& e = report.environment;
  std::string text = fmt::format("\nsweep {} · {} · LibTorch {}\n{}", report.name,
                                 machines_text(report), e.libtorch, table.text("  "));
  if (hidden > 0) text += fmt::format("  and {} more; --top 0 shows all\n", hidden);
  if (published) text += "  published: " + printable(options.published_note, 400) + "\n";
  if (const std::string why = disturbed_text(report.cases); !why.empty()) text += "  " + why + "\n";
  return text + time_line(report) + next_line(report, all, options.networks);
}

}  // namespace wide
