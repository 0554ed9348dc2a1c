#include "app/train/require.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/bytes/csv.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr const char* kRelations[] = {">=", "<=", "==", ">", "<"};

/// Of the metric at each model's best evaluation.
double value_of(const Requirement& r, const TrainState& state,
                const std::map<std::string, double>& ensemble) {
  std::vector<double> values;
  int64_t diverged = 0;
  for (const ModelState& m : state.models) {
    diverged += m.status == "diverged";
    if (m.at_best.count(r.metric)) values.push_back(m.at_best.at(r.metric));
  }
  if (r.metric == "diverged") return double(diverged);
  if (r.over == "ensemble") return ensemble.count(r.metric) ? ensemble.at(r.metric) : std::nan("");
  if (values.empty()) return std::nan("");
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (r.over == "min") return *low;
  if (r.over == "best") return r.more_is_better ? *high : *low;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / double(values.size());
}

}  // namespace

bool Requirement::holds(double value) const {
  if (relation == ">=") return value >= bound;
  if (relation == "<=") return value <= bound;
  if (relation == ">") return value > bound;
  if (relation == "<") return value < bound;
  return value == bound;
}

std::vector<Requirement> parse_requirements(const std::vector<std::string>& texts,
                                            const std::vector<WantedMetric>& metrics,
                                            bool validated) {
  std::vector<Requirement> all;
  for (const std::string& text : texts) {
    Requirement r{text, "mean", "", "", 0, true};
    size_t at = std::string::npos;
    for (const char* relation : kRelations)
      if (at == std::string::npos && (at = text.find(relation)) != std::string::npos)
        r.relation = relation;
    if (at == std::string::npos || !parse_number(text.substr(at + r.relation.size()), &r.bound))
      fail("[--require] requirement: got {}, expected METRIC>=NUMBER; try 'accuracy>=0.95'",
           printable(text));
    r.metric = text.substr(0, at);
    std::vector<std::string> known{"diverged"};
    if (validated)
      for (const WantedMetric& m : metrics) known.push_back(m.name);
    const auto is_known = [&] {
      return std::find(known.begin(), known.end(), r.metric) != known.end();
    };
    // A metric's own name may begin as one of these does: min:output.2.
    for (const char* over : {"mean", "min", "best", "ensemble"})
      if (!is_known() && r.metric.rfind(fmt::format("{}:", over), 0) == 0) {
        r.over = over;
        r.metric = r.metric.substr(r.over.size() + 1);
        break;
      }
    if (!is_known())
      fail("[--require] metric: got {}, expected one of {}; try --metric {}{}", printable(r.metric),
           listing(known, 20), printable(r.metric), validated ? "" : " and --validation 0.2");
    for (const WantedMetric& m : metrics)
      if (m.name == r.metric) r.more_is_better = m.more_is_better;
    all.push_back(std::move(r));
  }
  return all;
}

std::vector<Complaint> unmet(const std::vector<Requirement>& requirements, const TrainState& state,
                             const std::map<std::string, double>& ensemble) {
  std::vector<Complaint> all;
  for (const Requirement& r : requirements) {
    const double value = value_of(r, state, ensemble);
    if (r.holds(value)) continue;
    all.push_back({3, fmt::format("[--require] {}: got {:.6g}, expected {} {}; try longer "
                                  "training or other hyperparameters",
                                  printable(r.text), value, r.relation, r.bound)});
  }
  return all;
}

}  // namespace wide
