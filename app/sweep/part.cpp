#include "app/sweep/part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "data/bytes/digest.h"
#include "engine/error.h"

namespace wide {
namespace {

std::string text_of(const SweepCase& planned) {
  const Case c = empty_case(planned);
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}\n", c.target, c.shape, c.dtype, c.device, c.mode,
                     c.phase, c.n, fmt::join(planned.strategies, ","));
}

}  // namespace

std::string cases_digest(const std::vector<SweepCase>& cases) {
  std::string text;
  for (const SweepCase& c : cases) text += text_of(c);
  return fmt::format("{} cases, {}", cases.size(), digest(text));
}

std::vector<SweepCase> on_each_machine(const std::vector<SweepCase>& cases,
                                       std::vector<std::string> machines) {
  std::ranges::sort(machines);
  machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
  std::vector<SweepCase> all;
  for (const std::string& machine : machines)
    for (const SweepCase& c : cases) {
      all.push_back(c);
      all.back().machine = machine;
    }
  return all;
}

std::vector<std::vector<size_t>> shared_out(const std::vector<SweepCase>& cases, int64_t count,
                                            double budget_s) {
  std::vector<double> seconds;
  for (const SweepCase& c : cases) seconds.push_back(estimate_seconds({c}, budget_s));
  std::vector<size_t> longest(cases.size());
  std::iota(longest.begin(), longest.end(), size_t{0});
  std::ranges::stable_sort(longest, [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::vector<double> load(static_cast<size_t>(count));
  std::vector<std::vector<size_t>> shares(load.size());
  for (const size_t i : longest) {
    const auto least = std::ranges::min_element(load);
    *least += seconds[i];
    shares[static_cast<size_t>(least - load.begin())].push_back(i);
  }
  return shares;
}

SweepPart take_part(const Part& part, double budget_s, std::vector<SweepCase>* cases) {
  const std::vector<SweepCase> all = std::move(*cases);
  if (part.count > static_cast<int64_t>(all.size()))
    fail("[--part] parts: got {} of {} cases, expected no more than there are; try 1/{}",
         part.count, all.size(), all.size());
  SweepPart taken{part.text(), cases_digest(all), {}};
  const std::vector<std::vector<size_t>> shares = shared_out(all, part.count, budget_s);
  for (const size_t i : shares[static_cast<size_t>(part.number - 1)])
    taken.positions.push_back(static_cast<int64_t>(i));
  std::ranges::sort(taken.positions);
  cases->clear();
  for (const int64_t i : taken.positions) cases->push_back(all[static_cast<size_t>(i)]);
  return taken;
}

}  // namespace wide
