#include "app/results/compare_text.h"

#include <fmt/format.h>

#include <map>

#include "app/results/table.h"
#include "data/text.h"

namespace wide {
namespace {

std::string or_none(const std::string& text) { return text.empty() ? "none" : printable(text); }

std::string trials_text(const Comparison& comparison, size_t shown) {
  std::string out = verdicts_text(comparison) + "\n";
  Table table({"trial", "before", "after", "speed against the baselines", ""},
              {false, true, true, true, false});
  size_t rows = 0, left = 0;
  for (const ComparedTrial& t : comparison.trials) {
    if (t.verdict != "SLOWER" && t.verdict != "FASTER") continue;
    if (rows == shown) {
      ++left;
      continue;
    }
    table.add({printable(t.key.text()), time_text(t.before_ns), time_text(t.after_ns),
               speedup_text(t.change), t.verdict});
    ++rows;
  }
  if (rows) out += table.text("  ");
  if (left) out += fmt::format("  and {} more; try --json\n", left);
  return out;
}

}  // namespace

std::string verdicts_text(const Comparison& comparison) {
  std::map<std::string, size_t> verdicts;
  for (const ComparedTrial& t : comparison.trials) ++verdicts[t.verdict];
  std::string counts;
  for (const auto& [verdict, count] : verdicts)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, verdict);
  return fmt::format("{} trials in both: {}; between runs ratios scatter by {:.1f} %",
                     comparison.trials.size(), counts.empty() ? "none" : counts,
                     100 * comparison.noise);
}

std::string crossover_text(const CrossoverChange& change) {
  const auto n_text = [](const std::optional<int64_t>& n) {
    return n ? fmt::format("N={}", *n) : std::string("never");
  };
  return fmt::format("{}: faster from {}, was {}", printable(change.text()), n_text(change.after),
                     n_text(change.before));
}

std::string comparison_text(const Comparison& comparison, size_t shown) {
  std::string out =
      fmt::format("{} against {}\n", or_none(comparison.after), or_none(comparison.before));
  for (const std::string& why : comparison.hardware)
    out += fmt::format("other hardware, no time can be compared: {}\n", printable(why));
  out += trials_text(comparison, shown);
  const auto list = [&](const char* title, const auto& items, const auto& line) {
    if (items.empty()) return;
    out += fmt::format("{}\n", title);
    size_t rows = 0;
    for (const auto& item : items) {
      if (rows++ == shown) break;
      out += "  " + line(item) + "\n";
    }
    if (items.size() > shown)
      out += fmt::format("  and {} more; try --json\n", items.size() - shown);
  };
  list("statuses that changed", comparison.statuses, [](const StatusChange& s) {
    return fmt::format("{}: {} to {}", printable(s.key.text()), or_none(s.before),
                       or_none(s.after));
  });
  list("crossovers that changed", comparison.crossovers, crossover_text);
  list("environments differ in", comparison.environment, [](const Difference& d) {
    return fmt::format("{}: {}, was {}", printable(d.what), or_none(d.after), or_none(d.before));
  });
  return out;
}

}  // namespace wide
