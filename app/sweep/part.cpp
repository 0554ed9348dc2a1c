#include "app/sweep/part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "data/bytes/digest.h"
#include "engine/error.h"

namespace wide {
namespace {

std::string text_of(const PlannedCase& planned) {
  const Case c = empty_case(planned);
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}\n", c.target, c.shape, c.dtype, c.device, c.mode,
                     c.phase, c.n, fmt::join(planned.strategies, ","));
}

}  // namespace

std::string plan_digest(const std::vector<PlannedCase>& cases) {
  std::string text;
  for (const PlannedCase& c : cases) text += text_of(c);
  return fmt::format("{} cases, {}", cases.size(), digest(text));
}

std::vector<PlannedCase> on_each_machine(const std::vector<PlannedCase>& cases,
                                         std::vector<std::string> machines) {
  std::sort(machines.begin(), machines.end());
  machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
  std::vector<PlannedCase> all;
  for (const std::string& machine : machines)
    for (const PlannedCase& c : cases) {
      all.push_back(c);
      all.back().machine = machine;
    }
  return all;
}

std::vector<std::vector<size_t>> shared_out(const std::vector<PlannedCase>& cases, int64_t count,
                                            double budget_s) {
  std::vector<double> seconds;
  for (const PlannedCase& c : cases) seconds.push_back(estimate_seconds({c}, budget_s));
  std::vector<size_t> longest(cases.size());
  std::iota(longest.begin(), longest.end(), size_t{0});
  std::stable_sort(longest.begin(), longest.end(),
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::vector<double> load(static_cast<size_t>(count));
  std::vector<std::vector<size_t>> shares(load.size());
  for (const size_t i : longest) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += seconds[i];
    shares[static_cast<size_t>(least - load.begin())].push_back(i);
  }
  return shares;
}

SweepPart take_part(const Part& part, double budget_s, std::vector<PlannedCase>* cases) {
  const std::vector<PlannedCase> all = std::move(*cases);
  if (part.count > static_cast<int64_t>(all.size()))
    fail("[--part] parts: got {} of {} cases, expected no more than there are; try 1/{}",
         part.count, all.size(), all.size());
  SweepPart taken{part.text(), plan_digest(all), {}};
  const std::vector<std::vector<size_t>> shares = shared_out(all, part.count, budget_s);
  for (const size_t i : shares[static_cast<size_t>(part.number - 1)])
    taken.positions.push_back(static_cast<int64_t>(i));
  std::sort(taken.positions.begin(), taken.positions.end());
  cases->clear();
  for (const int64_t i : taken.positions) cases->push_back(all[static_cast<size_t>(i)]);
  return taken;
}

}  // namespace wide
