#include "data/reports/run_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

Json hyperparameters(const Json& model) {
  Json hyper = model.at("hyperparameters");
  // Earlier reports have what was not said as -1.
  if (hyper.value("dropout", 0.0) == -1) hyper.erase("dropout");
  return hyper;
}

std::string key_of(const Json& model, Pairing pairing) {
  return fmt::format("{} {} {}", pairing == Pairing::seeds ? "" : hyperparameters(model).dump(),
                     model.at("seeds").dump(), model.at("fold").dump());
}

/// The models that were not pruned.
std::map<std::string, const Json*> models_by_key(const Json& run, Pairing pairing) {
  std::map<std::string, const Json*> all;
  for (const Json& m : run.at("models"))
    if (!pruned(m)) all[key_of(m, pairing)] = &m;
  return all;
}

bool have_partners(const Json& before, const Json& after, Pairing pairing) {
  const auto partners = models_by_key(before, pairing);
  return std::any_of(after.at("models").begin(), after.at("models").end(), [&](const Json& m) {
    return !pruned(m) && partners.count(key_of(m, pairing)) > 0;
  });
}

/// Whether a model's seeds and fold say which it is.
bool seeds_tell_apart(const Json& run) {
  std::set<std::string> keys;
  for (const Json& m : run.at("models")) keys.insert(key_of(m, Pairing::seeds));
  return keys.size() == run.at("models").size();
}

void check_metric(const Json& before, const Json& after) {
  const std::string metric = before.at("monitor").at("name");
  if (after.at("monitor").at("name") != metric)
    fail("[compare] metric: got {} and {}, expected runs that monitor the same; try --monitor {}",
         metric, after.at("monitor").at("name").get<std::string>(), metric);
}

/// A run without validation rows has nothing to compare.
void check_validated(const Json& run, const char* which) {
  const std::string metric = run.at("monitor").at("name");
  const Json& models = run.at("models");
  if (std::none_of(models.begin(), models.end(),
                   [&](const Json& m) { return number_at(m.at("best"), metric).has_value(); }))
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

std::string text_of(const Json& value) {
  std::vector<std::string> parts;
  for (const Json& one : value.is_array() ? value : Json::array({value}))
    parts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  const std::string text = fmt::format("{}", fmt::join(parts, ", "));
  return text.empty() ? "none" : printable(text, 60);
}

std::string file_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// The values that a run's models have of a hyperparameter.
std::set<double> values_of(const Json& run, const std::string& key) {
  std::set<double> values;
  for (const Json& m : run.at("models")) {
    const Json hyper = hyperparameters(m);
    if (const auto value = number_at(hyper, key)) values.insert(*value);
  }
  return values;
}

std::string values_text(const std::set<double>& values) {
  if (values.empty()) return "none";
  if (values.size() <= 3) return fmt::format("{}", fmt::join(values, ", "));
  return fmt::format("{} values from {} to {}", values.size(), *values.begin(), *values.rbegin());
}

class Differences {
 public:
  Differences(const Json& before, const Json& after) : before_(before), after_(after) {}

  std::vector<RunDifference> all(Pairing pairing) {
    add_network();
    add_data();
    for (const char* key : {"loss", "optimizer", "schedule", "batch", "dtype"})
      add(key, at(before_, key), at(after_, key));
    add_settings();
    if (pairing == Pairing::seeds) add_hyperparameters();
    add("metrics", metrics_of(before_), metrics_of(after_), false);
    add("steps", at(before_.at("run"), "steps"), at(after_.at("run"), "steps"), false);
    return std::move(all_);
  }

 private:
  /// null of what an earlier report does not say.
  static Json at(const Json& json, const char* key) {
    const auto it = json.find(key);
    return it == json.end() ? Json(nullptr) : *it;
  }

  static Json metrics_of(const Json& run) {
    std::vector<std::string> names = metric_names(run);
    std::sort(names.begin(), names.end());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void add(const std::string& what, const Json& before, const Json& after,
           bool other_configuration = true) {
    if (!before.is_null() && !after.is_null() && before != after)
      all_.push_back({what, text_of(before), text_of(after), other_configuration});
  }

  /// Differs where it computes something else; reports that do not say so go by the file's name.
  void add_network() {
    const Json was = at(before_, "network_fingerprint"), is = at(after_, "network_fingerprint");
    const std::string from = file_name(before_.at("network")), to = file_name(after_.at("network"));
    if (was.is_null() || is.is_null()) return add("network", from, to);
    if (was != is)
      all_.push_back({"network", text_of(from),
                      text_of(to) + (from == to ? " with other operators or sizes" : "")});
  }

  void add_data() {
    const Json &was = before_.at("data"), &is = after_.at("data");
    const auto rows = [](const Json& data, const char* key) {
      return fmt::format("{} rows", data.at(key).get<int64_t>());
    };
    const auto look = [&](const char* what, const char* fingerprint, const char* count,
                          const char* others) {
      const Json a = at(was, fingerprint), b = at(is, fingerprint);
      const std::string from = rows(was, count), to = rows(is, count);
      if (a.is_null() || b.is_null()) return add(what, from, to);
      if (a != b) all_.push_back({what, from, to + (from == to ? others : "")});
    };
    look("data", "fingerprint", "rows", " of other columns or values");
    look("rows to validate", "split", "validation_rows",
         ", or rows to learn from, that are others");
  }

  void add_settings() {
    const Json was = at(before_, "settings"), is = at(after_, "settings");
    if (was.is_null() || is.is_null()) return;
    for (const auto& [key, value] : was.items()) add(key, value, at(is, key.c_str()));
  }

  void add_hyperparameters() {
    std::set<std::string> keys;
    for (const Json* run : {&before_, &after_}) {
      const Json hyper = hyperparameters(run->at("models").at(0));
      for (const auto& [key, value] : hyper.items()) keys.insert(key);
    }
    for (const std::string& key : keys) {
      const auto was = values_of(before_, key), is = values_of(after_, key);
      if (was != is) all_.push_back({key, values_text(was), values_text(is)});
    }
    // The same values, but of other models.
    if (std::none_of(all_.begin(), all_.end(),
                     [](const RunDifference& d) { return d.other_configuration; }))
      all_.push_back({"hyperparameters", "of a model", "of the model with its seeds are others"});
  }

  const Json &before_, &after_;
  std::vector<RunDifference> all_;
};

}  // namespace

void check_comparable(const Json& before, const Json& after) {
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

RunComparison compare_runs(const Json& before, const Json& after, Pairing least) {
  check_metric(before, after);
  check_validated(before, "run before");
  check_validated(after, "run after");
  RunComparison c;
  if (least == Pairing::seeds && !have_partners(before, after, c.pairing) &&
      seeds_tell_apart(before) && seeds_tell_apart(after))
    c.pairing = Pairing::seeds;
  if (!have_partners(before, after, c.pairing)) refuse_pairs();
  c.metric = before.at("monitor").at("name");
  c.more_is_better = before.at("monitor").at("more_is_better");
  c.differences = Differences(before, after).all(c.pairing);
  const auto partners = models_by_key(before, c.pairing);
  std::vector<double> changes;
  std::set<std::string> paired;
  for (const Json& m : after.at("models")) {
    if (pruned(m)) {
      ++c.pruned;
      continue;
    }
    const auto it = partners.find(key_of(m, c.pairing));
    const auto value = number_at(m.at("best"), c.metric);
    const auto was =
        it == partners.end() ? std::nullopt : number_at(it->second->at("best"), c.metric);
    if (!value || !was) {
      ++c.alone;
      continue;
    }
    paired.insert(it->first);
    changes.push_back(*value - *was);
    c.before += *was;
    c.after += *value;
  }
  for (const Json& m : before.at("models")) {
    if (pruned(m))
      ++c.pruned;
    else
      c.alone += !paired.count(key_of(m, c.pairing));
  }
  c.pairs = static_cast<int64_t>(changes.size());
  if (changes.empty()) refuse_pairs();
  c.before /= double(c.pairs);
  c.after /= double(c.pairs);
  c.change = spread_of(changes);
  const bool up = c.change->low > 0, down = c.change->high < 0;
  c.verdict = c.other_configuration()  ? "UNCLEAR"
              : !up && !down           ? "SAME"
              : up == c.more_is_better ? "BETTER"
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
               {"change", to_json(c.change)},
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
