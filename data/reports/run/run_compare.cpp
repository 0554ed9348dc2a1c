#include "data/reports/run/run_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/reports/run/run_fields.h"
#include "data/reports/sweep/compare/compare_noise.h"
#include "data/reports/sweep/report_json.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Widens the bootstrap interval of a mean of few numbers, which is too narrow: by Student's
/// quantile over the normal one, and by the deviation with n - 1 over that of resamples, which is
/// with n.
void widen(Spread& spread) {
  if (spread.n < 2) return;
  constexpr double kNormal = 1.959963984540054, kMiss = 0.05;
  constexpr double kMostFreedom = 1000;  // beyond it, the quantiles agree in three digits
  const auto n = static_cast<double>(spread.n);
  const double by =
      student_quantile(kMiss, std::min(n - 1, kMostFreedom)) / kNormal * std::sqrt(n / (n - 1));
  for (double* end : {&spread.low, &spread.high}) *end = spread.mean + by * (*end - spread.mean);
}

std::map<std::string, double> hyperparameters(const ModelReport& model) {
  std::map<std::string, double> hyper = model.hyperparameters;
  // Earlier versions wrote -1 for an option that was not given.
  if (const auto it = hyper.find("dropout"); it != hyper.end() && it->second == -1) hyper.erase(it);
  return hyper;
}

std::string key_of(const ModelReport& model, Pairing pairing) {
  std::string key = fmt::format("{} {} {} {}", model.seeds.init, model.seeds.order,
                                model.seeds.dropout, model.fold);
  if (pairing == Pairing::configuration)
    for (const auto& [name, value] : hyperparameters(model))
      key += fmt::format(" {}={}", name, value);
  return key;
}

/// The models that were not pruned.
std::map<std::string, const ModelReport*> models_by_key(const RunReport& run, Pairing pairing) {
  std::map<std::string, const ModelReport*> all;
  for (const ModelReport& m : run.models)
    if (!m.pruned()) all[key_of(m, pairing)] = &m;
  return all;
}

bool have_partners(const RunReport& before, const RunReport& after, Pairing pairing) {
  const auto partners = models_by_key(before, pairing);
  return std::any_of(after.models.begin(), after.models.end(), [&](const ModelReport& m) {
    return !m.pruned() && partners.count(key_of(m, pairing)) > 0;
  });
}

/// Whether no two models have the same seeds and fold.
bool seeds_tell_apart(const RunReport& run) {
  std::set<std::string> keys;
  for (const ModelReport& m : run.models) keys.insert(key_of(m, Pairing::seeds));
  return keys.size() == run.models.size();
}

void check_metric(const RunReport& before, const RunReport& after) {
  const std::string& metric = before.monitor.name;
  if (after.monitor.name != metric)
    fail("[compare] metric: got {} and {}, expected runs that monitor the same; try --monitor {}",
         metric, after.monitor.name, metric);
}

/// Refuses a run without validation rows, which has nothing to compare.
void check_validated(const RunReport& run, const char* which) {
  const std::string& metric = run.monitor.name;
  if (std::none_of(run.models.begin(), run.models.end(),
                   [&](const ModelReport& m) { return best_at(m, metric).has_value(); }))
    fail(
        "[compare] {}: got no {} of validation rows, expected one to compare by; try a run with "
        "--validation",
        which, metric);
}

[[noreturn]] void refuse_pairs() {
  fail(
      "[compare] models: got no two of the same configuration and seeds, expected some; try "
      "runs of the same --grid and --seed");
}

std::string shown(const std::string& text) { return text.empty() ? "none" : printable(text, 60); }

std::string text_of(const Json& value) {
  std::vector<std::string> parts;
  for (const Json& one : value.is_array() ? value : Json::array({value}))
    parts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return shown(fmt::format("{}", fmt::join(parts, ", ")));
}

std::string file_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// The values of a hyperparameter among a run's models.
std::set<double> values_of(const RunReport& run, const std::string& key) {
  std::set<double> values;
  for (const ModelReport& m : run.models)
    if (const auto value = number_at(hyperparameters(m), key)) values.insert(*value);
  return values;
}

std::string values_text(const std::set<double>& values) {
  if (values.empty()) return "none";
  if (values.size() <= 3) return fmt::format("{}", fmt::join(values, ", "));
  return fmt::format("{} values from {} to {}", values.size(), *values.begin(), *values.rbegin());
}

class Differences {
 public:
  Differences(const RunReport& before, const RunReport& after) : before_(before), after_(after) {}

  std::vector<RunDifference> all(Pairing pairing) {
    add_network();
    add_data();
    add("loss", before_.loss, after_.loss);
    add("optimizer", before_.optimizer, after_.optimizer);
    add("schedule", before_.schedule, after_.schedule);
    add("batch", std::to_string(before_.batch), std::to_string(after_.batch));
    add("dtype", before_.dtype, after_.dtype);
    add_settings();
    if (pairing == Pairing::seeds) add_hyperparameters();
    add("metrics", metrics_of(before_), metrics_of(after_), false);
    add("steps", std::to_string(before_.run.steps), std::to_string(after_.run.steps), false);
    return std::move(all_);
  }

 private:
  static std::string metrics_of(const RunReport& run) {
    std::vector<std::string> names = metric_names(run);
    std::sort(names.begin(), names.end());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void add(const std::string& what, const std::string& before, const std::string& after,
           bool other_configuration = true) {
    if (before != after) all_.push_back({what, shown(before), shown(after), other_configuration});
  }

  /// Compares fingerprints of the networks; if a report lacks one, the files' names.
  void add_network() {
    const std::string &was = before_.network_fingerprint, &is = after_.network_fingerprint;
    const std::string from = file_name(before_.network), to = file_name(after_.network);
    if (was.empty() || is.empty()) return add("network", from, to);
    if (was != is)
      all_.push_back({"network", shown(from),
                      shown(to) + (from == to ? " with other operators or sizes" : "")});
  }

  void add_data() {
    const auto look = [&](const char* what, std::string RunData::*fingerprint,
                          int64_t RunData::*count, const char* others) {
      const std::string &a = before_.data.*fingerprint, &b = after_.data.*fingerprint;
      const std::string from = fmt::format("{} rows", before_.data.*count),
                        to = fmt::format("{} rows", after_.data.*count);
      if (a.empty() || b.empty()) return add(what, from, to);
      if (a != b) all_.push_back({what, from, to + (from == to ? others : "")});
    };
    look("data", &RunData::fingerprint, &RunData::rows, " of other columns or values");
    look("rows to validate", &RunData::split, &RunData::validation_rows,
         ", or other training rows");
  }

  void add_settings() {
    for (const auto& [key, value] : before_.settings) {
      const auto now = after_.settings.find(key);
      if (now != after_.settings.end() && now->second != value)
        add(key, text_of(Json::parse(value.text)), text_of(Json::parse(now->second.text)));
    }
  }

  void add_hyperparameters() {
    std::set<std::string> keys;
    for (const RunReport* run : {&before_, &after_})
      for (const auto& [key, value] : hyperparameters(run->models.at(0))) keys.insert(key);
    for (const std::string& key : keys) {
      const auto was = values_of(before_, key), is = values_of(after_, key);
      if (was != is) all_.push_back({key, values_text(was), values_text(is)});
    }
    // Both runs have the same values, but models combine them differently.
    if (std::none_of(all_.begin(), all_.end(),
                     [](const RunDifference& d) { return d.other_configuration; }))
      all_.push_back({"hyperparameters", "of a model", "others for the model with the same seeds"});
  }

  const RunReport &before_, &after_;
  std::vector<RunDifference> all_;
};

}  // namespace

void check_comparable(const RunReport& before, const RunReport& after) {
  check_metric(before, after);
  check_validated(before, "run before");
  if (!have_partners(before, after, Pairing::configuration)) refuse_pairs();
}

bool RunComparison::other_configuration() const {
  return std::any_of(differences.begin(), differences.end(),
                     [](const RunDifference& d) { return d.other_configuration; });
}

bool RunComparison::worse_by(double percent) const {
  const bool worse = more_is_better ? change->high < 0 : change->low > 0;
  return worse && std::abs(after - before) > percent / 100 * std::abs(before);
}

std::string worse_line(const RunComparison& c, double percent) {
  return fmt::format(
      "[--against] {}: got {:.4g} over {} pairs of models, expected at most {:g} % worse than "
      "{:.4g}; try workbench compare",
      c.metric, c.after, c.pairs, percent, c.before);
}

RunComparison compare_runs(const RunReport& before, const RunReport& after, Pairing least) {
  check_metric(before, after);
  check_validated(before, "run before");
  check_validated(after, "run after");
  RunComparison c;
  if (least == Pairing::seeds && !have_partners(before, after, c.pairing) &&
      seeds_tell_apart(before) && seeds_tell_apart(after))
    c.pairing = Pairing::seeds;
  if (!have_partners(before, after, c.pairing)) refuse_pairs();
  c.metric = before.monitor.name;
  c.more_is_better = before.monitor.more_is_better;
  c.differences = Differences(before, after).all(c.pairing);
  const auto partners = models_by_key(before, c.pairing);
  std::vector<double> changes;
  std::set<std::string> paired;
  for (const ModelReport& m : after.models) {
    if (m.pruned()) {
      ++c.pruned;
      continue;
    }
    const auto it = partners.find(key_of(m, c.pairing));
    const auto value = best_at(m, c.metric);
    const auto was = it == partners.end() ? std::nullopt : best_at(*it->second, c.metric);
    if (!value || !was) {
      ++c.alone;
      continue;
    }
    paired.insert(it->first);
    changes.push_back(*value - *was);
    c.before += *was;
    c.after += *value;
  }
  for (const ModelReport& m : before.models) {
    if (m.pruned())
      ++c.pruned;
    else
      c.alone += !paired.count(key_of(m, c.pairing));
  }
  c.pairs = static_cast<int64_t>(changes.size());
  if (changes.empty()) refuse_pairs();
  c.before /= double(c.pairs);
  c.after /= double(c.pairs);
  c.change = spread_of(changes);
  widen(*c.change);
  const bool chance = c.pairs == 1 && c.change->mean != 0;  // may be the reason
  const bool up = c.change->low > 0, down = c.change->high < 0;
  c.verdict = c.other_configuration() || chance ? "UNCLEAR"
              : !up && !down                    ? "SAME"
              : up == c.more_is_better          ? "BETTER"
                                                : "WORSE";
  return c;
}

Json to_json(const RunComparison& c) {
  Json json = {{"schema", 1},
               {"metric", c.metric},
               {"paired_by", c.pairing == Pairing::seeds ? "seeds" : "configuration"},
               {"pairs", c.pairs},
               {"alone", c.alone},
               {"pruned", c.pruned},
               {"before", c.before},
               {"after", c.after},
               {"change", c.change ? fields_json(*c.change) : Json(nullptr)},
               {"differences", Json::array()},
               {"verdict", c.verdict}};
  for (const RunDifference& d : c.differences)
    json["differences"].push_back({{"what", d.what},
                                   {"before", d.before},
                                   {"after", d.after},
                                   {"other_configuration", d.other_configuration}});
  return json;
}

std::string comparison_text(const RunComparison& c) {
  std::string text;
  if (c.other_configuration())
    text += "the runs are of other configurations, so that nothing is called BETTER or WORSE:\n";
  else if (!c.differences.empty())
    text += "the runs differ:\n";
  size_t width = 0;
  for (const RunDifference& d : c.differences) width = std::max(width, d.what.size());
  for (const RunDifference& d : c.differences)
    text += fmt::format("  {:<{}}  {} -> {}\n", printable(d.what), width, d.before, d.after);
  if (!c.differences.empty())
    text += fmt::format(
        "compared is the best {} of each model with that of the model of the same {} in the other "
        "run, each on the validation rows of its own run\n",
        c.metric,
        c.pairing == Pairing::seeds ? "seeds and fold" : "hyperparameters, seeds and fold");
  text += fmt::format("{} {} over {} pairs of models: {:.4g} -> {:.4g}, change {}\n", c.verdict,
                      c.metric, c.pairs, c.before, c.after, spread_text(c.change));
  if (c.pairing == Pairing::seeds)
    text += "paired by seeds alone: no two models have the same configuration\n";
  if (c.alone) text += fmt::format("{} models have no partner\n", c.alone);
  if (c.pruned) text += fmt::format("{} pruned models are left out\n", c.pruned);
  return text;
}

}  // namespace wide
