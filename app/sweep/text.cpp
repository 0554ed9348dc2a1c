#include "app/sweep/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/results/table.h"
#include "data/reports/apart.h"
#include "data/reports/sweep/summary_rows.h"
#include "data/text.h"

namespace wide {
namespace {

std::string verdict_text(const Case& c, const Trial& t) {
  return (t.status == Status::ok ? t.verdict : to_string(t.status)) +
         (c.disturbed ? ", disturbed" : "");
}

std::vector<std::string> row(const Case& c, const Trial& t) {
  const bool timed = t.timing.median_ns > 0;
  const bool compared = t.status == Status::ok && t.speedup;
  return {fmt::format("{}", c.n),
          c.shape,
          t.strategy + (t.chosen ? " *" : ""),
          timed ? time_text(t.timing.median_ns) : "",
          compared ? speedup_text(t.speedup->vs_loop) : "",
          compared ? speedup_text(t.speedup->vs_best) + " " + t.speedup->best_baseline : "",
          t.correctness ? error_text(t.correctness->max_rel) : "",
          verdict_text(c, t)};
}

std::string crossover_line(const std::vector<Case>& cases) {
  std::string out;
  for (const Crossover& c : crossovers(cases))
    if (c.n)
      out += fmt::format("{}{} N={}{}", out.empty() ? "" : ", ", c.strategy, *c.n,
                         c.shape.empty() ? "" : " (" + c.shape + ")");
  return out.empty() ? "none" : out;
}

}  // namespace

std::string cases_text(const std::vector<Case>& cases, const std::string& machine) {
  const Case& first = cases.front();
  Table table({"N", "shape", "strategy", "median", "over loop", "over best baseline", "error", ""},
              {true, false, false, true, true, true, true, false});
  std::map<std::string, int> reasons;
  for (const Case& c : cases) {
    for (const Timing& b : c.baselines)
      table.add({fmt::format("{}", c.n), c.shape, "  " + b.name, time_text(b.median_ns)});
    for (const Trial& t : c.trials) {
      table.add(row(c, t));
      if (!t.reason.empty())
        ++reasons[fmt::format("{} {}: {}", t.strategy, to_string(t.status), t.reason)];
    }
    for (const std::string& note : c.notes) ++reasons["note: " + printable(note, 200)];
  }
  std::string out = fmt::format("\n{} · {} · {} · {} · {}{}\n{}", first.target, first.device,
                                first.dtype, first.mode, first.phase,
                                machine.empty() ? "" : " · " + machine, table.text("  "));
  for (const auto& [reason, count] : reasons)
    out += fmt::format("  {}{}\n", reason, count > 1 ? fmt::format(" ({}x)", count) : "");
  return out + "  faster from: " + crossover_line(cases) + "\n";
}

std::string tables_text(const std::vector<Case>& cases, const std::string& machine) {
  const Apart apart(cases);
  std::vector<std::vector<Case>> tables;
  for (const Case& c : cases) {
    auto table = std::ranges::find_if(tables, [&](const auto& t) {
      return same_table(t.front(), c) && apart.number(t.front()) == apart.number(c);
    });
    if (table == tables.end()) table = tables.insert(table, std::vector<Case>{});
    table->push_back(c);
  }
  std::string text;
  for (const std::vector<Case>& table : tables)
    text +=
        cases_text(table, machine.empty() && apart.several() ? apart.of(table.front()) : machine);
  return text;
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 3600e6;
  if (seconds > kLongest) return "more than 1000000 h";
  const auto s = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

}  // namespace wide
