#include "app/train/run/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace wide {

using Json = nlohmann::ordered_json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    TrainOptions, network, eval_model, weights, init, as_exported, trusted, data, validation, test,
    own, columns, target, normalize, augment, sample_weight, output, folds, fold, group, rows,
    validation_of_rest, epoch_data, n, seeds, seed, models, part, set, grid, lr, weight_decay,
    momentum, loss, optimizer, schedule, warmup, no_decay, freeze, batch, epochs, steps, order,
    same_order, drop_last, metrics, monitor, eval_every, patience, min_delta, prune, save, log,
    no_save, save_every, keep, dtype, device, threads, exact, check)

namespace {

/// JSON's null stands for NaN.
double number(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

std::vector<double> numbers(const Json& json) {
  std::vector<double> all;
  for (const Json& one : json) all.push_back(number(one));
  return all;
}

std::map<std::string, double> named(const Json& json) {
  std::map<std::string, double> all;
  for (const auto& [key, value] : json.items()) all[key] = number(value);
  return all;
}

}  // namespace

std::vector<int64_t> answering_models(const std::vector<ModelState>& models) {
  const bool any_best = std::any_of(models.begin(), models.end(),
                                    [](const ModelState& m) { return m.best && !m.pruned(); });
  std::vector<int64_t> all;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].pruned()) continue;
    if (any_best ? models[i].best.has_value() : models[i].status != "diverged")
      all.push_back(static_cast<int64_t>(i));
  }
  return all;
}

std::string left_out_text(const std::vector<ModelState>& models) {
  const auto pruned =
      std::count_if(models.begin(), models.end(), [](const ModelState& m) { return m.pruned(); });
  const auto others = static_cast<std::ptrdiff_t>(models.size()) - pruned -
                      static_cast<std::ptrdiff_t>(answering_models(models).size());
  std::vector<std::string> parts;
  if (others > 0) parts.push_back(fmt::format("{} without a finite value", others));
  if (pruned > 0) parts.push_back(fmt::format("{} pruned", pruned));
  return parts.empty() ? "" : fmt::format("{} left out", fmt::join(parts, " and "));
}

Json to_json(const TrainState& state) {
  Json j = {{"step", state.step},
            {"seconds", state.seconds},
            {"loss_steps", state.loss_steps},
            {"run", state.run},
            {"models", Json::array()},
            {"history", Json::array()},
            {"events", Json::array()},
            {"check_notes", state.check_notes},
            {"check_notes_left_out", state.check_notes_left_out}};
  for (const ModelState& m : state.models)
    j["models"].push_back({{"status", m.status},
                           {"at_step", m.at_step},
                           {"best", m.best ? Json(*m.best) : Json(nullptr)},
                           {"best_step", m.best_step},
                           {"without_better", m.without_better},
                           {"skipped", m.skipped},
                           {"skipped_since", m.skipped_since},
                           {"at_best", m.at_best},
                           {"last", m.last},
                           {"test", m.test}});
  for (const Evaluated& e : state.history)
    j["history"].push_back({{"step", e.step},
                            {"epoch", e.epoch},
                            {"seconds", e.seconds},
                            {"wall_s", e.wall_s},
                            {"train_loss", e.train_loss},
                            {"values", e.values}});
  for (const Event& e : state.events)
    j["events"].push_back({{"step", e.step}, {"model", e.model}, {"what", e.what}});
  return j;
}

TrainState state_of(const Json& json) {
  TrainState state;
  state.step = json.at("step");
  state.seconds = json.at("seconds");
  state.loss_steps = json.at("loss_steps");
  state.run = json.at("run");
  for (const Json& m : json.at("models")) {
    ModelState model;
    model.status = m.at("status");
    model.at_step = m.at("at_step");
    if (!m.at("best").is_null()) model.best = m.at("best").get<double>();
    model.best_step = m.at("best_step");
    model.without_better = m.at("without_better");
    model.skipped = m.value("skipped", int64_t{0});  // not in files of the first versions
    model.skipped_since = m.value("skipped_since", int64_t{0});
    model.at_best = named(m.at("at_best"));
    model.last = named(m.at("last"));
    model.test = named(m.at("test"));
    state.models.push_back(std::move(model));
  }
  for (const Json& e : json.at("history")) {
    Evaluated row;
    row.step = e.at("step");
    row.epoch = e.at("epoch");
    row.seconds = e.at("seconds");
    row.wall_s = e.value("wall_s", 0.0);  // not in files of the first versions
    row.train_loss = numbers(e.at("train_loss"));
    for (const auto& [metric, values] : e.at("values").items())
      row.values[metric] = numbers(values);
    state.history.push_back(std::move(row));
  }
  for (const Json& e : json.at("events"))
    state.events.push_back({e.at("step"), e.at("model"), e.at("what")});
  // Not in files of the first versions.
  state.check_notes = json.value("check_notes", std::vector<std::string>());
  state.check_notes_left_out = json.value("check_notes_left_out", int64_t{0});
  return state;
}

Json to_json(const TrainOptions& options) { return Json(nlohmann::json(options)); }

TrainOptions options_of(const Json& json) { return nlohmann::json(json).get<TrainOptions>(); }

}  // namespace wide
