#include "app/train/outputs/require.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/bytes/csv.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr const char* kRelations[] = {">=", "<=", "==", ">", "<"};

/// Values of the metric at each model's best evaluation, as in the report, without pruned models.
double value_of(const Requirement& r, const TrainState& state,
                const std::map<std::string, double>& ensemble) {
  std::vector<double> values;
  int64_t diverged = 0;
  for (const ModelState& m : state.models) {
    diverged += m.status == "diverged";
    if (!m.pruned() && m.at_best.count(r.metric)) values.push_back(m.at_best.at(r.metric));
  }
  if (r.metric == "diverged") return double(diverged);
  if (r.over == "ensemble") return ensemble.count(r.metric) ? ensemble.at(r.metric) : std::nan("");
  if (values.empty()) return std::nan("");
  const auto [low, high] = std::ranges::minmax_element(values);
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
    const auto trimmed = [](const std::string& part) {
      const size_t first = part.find_first_not_of(' ');
      if (first == std::string::npos) return std::string();
      return part.substr(first, part.find_last_not_of(' ') - first + 1);
    };
    size_t at = std::string::npos;
    for (const char* relation : kRelations)
      if (at == std::string::npos && (at = text.find(relation)) != std::string::npos)
        r.relation = relation;
    if (at == std::string::npos ||
        !parse_number(trimmed(text.substr(at + r.relation.size())), &r.bound))
      fail("[--require] requirement: got {}, expected METRIC>=NUMBER; try 'accuracy>=0.95'",
           printable(text));
    r.metric = trimmed(text.substr(0, at));
    std::vector<std::string> known{"diverged"};
    if (validated)
      for (const WantedMetric& m : metrics) known.push_back(m.name);
    const auto is_known = [&] { return std::ranges::find(known, r.metric) != known.end(); };
    // The name of a metric may begin with such a word too: min:output.2.
    for (const char* over : {"mean", "min", "best", "ensemble"})
      if (!is_known() && r.metric.rfind(fmt::format("{}:", over), 0) == 0) {
        r.over = over;
        r.metric = r.metric.substr(r.over.size() + 1);
        break;
      }
    const size_t colon = r.metric.find(':');
    const bool measured =
        std::ranges::any_of(metrics, [&](const WantedMetric& m) { return m.name == r.metric; });
    if (!is_known() && !measured && r.over == "mean" && colon != std::string::npos)
      fail("[--require] models: got {}, expected mean, min, best or ensemble; try best:{}",
           printable(r.metric.substr(0, colon)), printable(text.substr(text.find(':') + 1)));
    if (!is_known())
      fail("[--require] metric: got {}, expected one of {}; try {}", printable(r.metric),
           listing(known, 20),
           measured    ? "--validation 0.2"
           : validated ? "--metric " + printable(r.metric)
                       : "--metric " + printable(r.metric) + " and --validation 0.2");
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
    all.push_back(
        {3, fmt::format("[--require] {}: got {:.6g}, expected {} {}; try {}", printable(r.text),
                        value, r.relation, r.bound,
                        r.metric == "diverged" ? "a smaller --lr or --set clip=1"
                                               : "longer training or other hyperparameters")});
  }
  return all;
}

}  // namespace wide
