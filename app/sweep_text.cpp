#include "app/sweep_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/table.h"
#include "data/text.h"

namespace wide {
namespace {

std::string verdict_text(const Trial& t) {
  return t.status == Status::ok ? t.verdict : to_string(t.status);
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
          verdict_text(t)};
}

std::string crossover_line(const std::vector<Case>& cases) {
  std::string out;
  for (const Crossover& c : crossovers(cases))
    if (c.n)
      out += fmt::format("{}{} N={}{}", out.empty() ? "" : ", ", c.strategy, *c.n,
                         c.shape.empty() ? "" : " (" + c.shape + ")");
  return out.empty() ? "none" : out;
}

/// Cases of the same target, in the order in which the targets came.
std::vector<std::vector<Case>> by_target(const std::vector<Case>& cases) {
  std::vector<std::vector<Case>> groups;
  for (const Case& c : cases) {
    if (groups.empty() || groups.back().front().target != c.target) groups.emplace_back();
    groups.back().push_back(c);
  }
  return groups;
}

}  // namespace

std::string target_text(const std::vector<Case>& cases) {
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
  }
  std::string out = fmt::format("\n{} · {} · {} · {}\n{}", first.target, first.device, first.dtype,
                                first.mode, table.text("  "));
  for (const auto& [reason, count] : reasons)
    out += fmt::format("  {}{}\n", reason, count > 1 ? fmt::format(" ({}x)", count) : "");
  return out + "  faster from: " + crossover_line(cases) + "\n";
}

std::string summary_text(const SweepReport& report) {
  Table table({"target", "N", "best strategy", "over loop", "over best baseline", "ok",
               "unsupported", "wrong or failed"},
              {false, true, false, true, true, true, true, true});
  for (const auto& cases : by_target(report.cases)) {
    int64_t ok = 0, unsupported = 0, bad = 0;
    const Case* largest = &cases.front();
    for (const Case& c : cases) {
      if (c.n >= largest->n) largest = &c;
      for (const Trial& t : c.trials)
        ++(t.status == Status::ok ? ok : t.status == Status::unsupported ? unsupported : bad);
    }
    const Trial* best = nullptr;
    for (const Trial& t : largest->trials)
      if (t.status == Status::ok && t.speedup &&
          (!best || t.timing.median_ns < best->timing.median_ns))
        best = &t;
    table.add({cases.front().target, fmt::format("{}", largest->n), best ? best->strategy : "none",
               best ? speedup_text(best->speedup->vs_loop) : "",
               best ? speedup_text(best->speedup->vs_best) : "", fmt::format("{}", ok),
               fmt::format("{}", unsupported), fmt::format("{}", bad)});
  }
  const Environment& e = report.environment;
  return fmt::format("\nsweep {} · {} · {} threads · LibTorch {} · {}\n{}", report.name, e.cpu,
                     e.threads, e.libtorch, e.gpu.empty() ? "not run on a GPU" : e.gpu,
                     table.text("  "));
}

std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

}  // namespace wide
