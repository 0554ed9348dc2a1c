#include "app/train/run/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "engine/error.h"

namespace wide {

using Json = nlohmann::ordered_json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    TrainOptions, network, eval_model, weights, init, as_exported, trusted, data, validation, test,
    own, columns, target, normalize, augment, sample_weight, output, folds, fold, group, rows,
    validation_of_rest, epoch_data, n, seeds, seed, models, part, set, grid, lr, weight_decay,
    momentum, loss, optimizer, schedule, warmup, no_decay, freeze, batch, epochs, steps, order,
    same_order, drop_last, metrics, monitor, eval_every, patience, min_delta, prune, save, log,
    no_save, save_every, keep, dtype, device, threads, exact, check)

// The file of a run has its state as these fields.

/// Of fields that files of the first versions lack.
static constexpr FieldRule kNewer{.presence = Presence::later};

static void describe(Fields& fields, ModelState& model) {
  fields.add("status", model.status);
  fields.add("at_step", model.at_step);
  double best = model.best.value_or(std::nan(""));
  fields.add("best", best);
  if (fields.fills()) model.best = std::isnan(best) ? std::nullopt : std::optional(best);
  fields.add("best_step", model.best_step);
  fields.add("without_better", model.without_better);
  fields.add("skipped", model.skipped, kNewer);
  fields.add("skipped_since", model.skipped_since, kNewer);
  fields.add("at_best", model.at_best);
  fields.add("last", model.last);
  fields.add("test", model.test);
}

static void describe(Fields& fields, Evaluated& row) {
  fields.add("step", row.step);
  fields.add("epoch", row.epoch);
  fields.add("seconds", row.seconds);
  fields.add("wall_s", row.wall_s, kNewer);
  fields.add("train_loss", row.train_loss);
  fields.add("made", row.made, kNewer);
  fields.add("values", row.values);
}

static void describe(Fields& fields, Event& event) {
  fields.add("step", event.step);
  fields.add("model", event.model);
  fields.add("what", event.what);
}

static void describe(Fields& fields, TrainState& state) {
  fields.add("step", state.step);
  fields.add("seconds", state.seconds);
  fields.add("loss_steps", state.loss_steps);
  fields.add("run", state.run);
  fields.add("name", state.name, kNewer);
  fields.add("command", state.command, kNewer);
  fields.add("started", state.started, kNewer);
  fields.add("resumes", state.resumes, kNewer);
  fields.add("models", state.models);
  fields.add("history", state.history);
  fields.add("events", state.events);
  fields.add("check_notes", state.check_notes, kNewer);
  fields.add("check_notes_left_out", state.check_notes_left_out, kNewer);
}

bool Evaluated::ran(size_t model) const {
  return !std::isnan(train_loss[model]) || (model < made.size() && made[model] == 0);
}

std::vector<int64_t> answering_models(const std::vector<ModelState>& models) {
  const bool any_best =
      std::ranges::any_of(models, [](const ModelState& m) { return m.best && !m.pruned(); });
  std::vector<int64_t> all;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].pruned()) continue;
    if (any_best ? models[i].best.has_value() : models[i].status != "diverged")
      all.push_back(static_cast<int64_t>(i));
  }
  return all;
}

std::string left_out_text(const std::vector<ModelState>& models) {
  const auto pruned = std::ranges::count_if(models, [](const ModelState& m) { return m.pruned(); });
  const auto others = static_cast<std::ptrdiff_t>(models.size()) - pruned -
                      static_cast<std::ptrdiff_t>(answering_models(models).size());
  std::vector<std::string> parts;
  if (others > 0) parts.push_back(fmt::format("{} without a finite value", others));
  if (pruned > 0) parts.push_back(fmt::format("{} pruned", pruned));
  return parts.empty() ? "" : fmt::format("{} left out", fmt::join(parts, " and "));
}

Json to_json(const TrainState& state) { return fields_json(state); }

TrainState state_of(const Json& json) {
  TrainState state;
  try {
    read_fields(json, "run", UnknownFields::ignored,
                [&](Fields& fields) { describe(fields, state); });
  } catch (const Error& e) {
    throw std::invalid_argument(e.what());
  }
  return state;
}

Json to_json(const TrainOptions& options) { return Json(nlohmann::json(options)); }

TrainOptions options_of(const Json& json) { return nlohmann::json(json).get<TrainOptions>(); }

}  // namespace wide
