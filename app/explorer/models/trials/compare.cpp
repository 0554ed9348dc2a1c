#include "app/explorer/models/trials/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace wide {

bool ComparedLine::changed() const {
  const bool moved = std::any_of(changes.begin(), changes.end(), [](const auto& change) {
    return change && (change->verdict == "FASTER" || change->verdict == "SLOWER");
  });
  return moved || std::any_of(statuses.begin(), statuses.end(),
                              [](const auto& status) { return status.has_value(); });
}

std::vector<ComparedLine> compared_lines(const std::vector<Comparison>& all) {
  std::map<TrialKey, ComparedLine> by_key;
  const auto line_of = [&](const TrialKey& key) -> ComparedLine& {
    ComparedLine& line = by_key[key];
    line.key = key;
    line.changes.resize(all.size());
    line.statuses.resize(all.size());
    return line;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    for (const ComparedTrial& t : all[i].trials) {
      ComparedLine& line = line_of(t.key);
      line.changes[i] = t;
      line.worst = std::min(line.worst, t.change.value);
    }
    for (const StatusChange& s : all[i].statuses) {
      ComparedLine& line = line_of(s.key);
      line.statuses[i] = s;
      line.worst = 0;
    }
  }
  std::vector<ComparedLine> lines;
  for (auto& [key, line] : by_key) lines.push_back(std::move(line));
  std::stable_sort(lines.begin(), lines.end(),
                   [](const ComparedLine& a, const ComparedLine& b) { return a.worst < b.worst; });
  return lines;
}

std::string status_change_text(const StatusChange& change) {
  const auto word = [](const std::string& status) { return status.empty() ? "none" : status; };
  return word(change.before) + " to " + word(change.after);
}

std::string unclear_text(const ComparedTrial& trial) {
  if (trial.verdict != "UNCLEAR") return "";
  if (!trial.why_unclear.empty()) return trial.why_unclear;
  return fmt::format("from {:.2f} to {:.2f} times as fast: the interval holds both",
                     trial.change.low, trial.change.high);
}

}  // namespace wide
