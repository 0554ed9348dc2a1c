#include "app/train/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/train/fingerprint.h"
#include "data/bytes/digest.h"
#include "data/reports/report_json.h"
#include "data/reports/run_report.h"
#include "data/tensors.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

Json model_json(const Prepared& run, const TrainState& state, size_t i) {
  const ModelPlan& m = run.plan.models[i];
  const ModelState& s = state.models[i];
  Json best = nullptr;
  if (s.best) {
    best = {{"step", s.best_step}};
    for (const auto& [metric, value] : s.at_best) best[metric] = value;
  }
  return {{"model", i},
          {"name", m.name},
          {"config", m.config},
          {"fold", m.fold < 0 ? Json(nullptr) : Json(m.fold)},
          {"seeds", {{"init", m.seed_init}, {"order", m.seed_order}, {"dropout", m.seed_dropout}}},
          {"hyperparameters", m.hyper},
          {"labels", m.labels},
          {"status", s.status},
          {"at_step", s.at_step},
          {"best", best},
          {"last", s.last},
          {"test", s.test}};
}

/// Of a fold where there are folds; of all models where these have rows of their own.
size_t held_rows(const Prepared& run, const std::vector<Rows>& rows) {
  if (rows.empty() || !run.data.by_model) return rows.empty() ? 0 : rows[0].size();
  size_t sum = 0;
  for (const Rows& own : rows) sum += own.size();
  return sum;
}

/// What was set besides hyperparameters and what the report has by itself. Left out: where files
/// are, which data and models, how long it trains, and what changes no number but in its last bits.
Json settings_json(const TrainOptions& options) {
  Json settings = to_json(options);
  for (const char* key :
       {"network",      "eval_model", "data",    "validation", "test",       "columns",
        "target",       "fold",       "group",   "rows",       "epoch_data", "n",
        "seeds",        "seed",       "models",  "set",        "grid",       "lr",
        "weight_decay", "momentum",   "loss",    "optimizer",  "schedule",   "batch",
        "epochs",       "steps",      "metrics", "monitor",    "save",       "log",
        "no_save",      "save_every", "keep",    "dtype",      "device",     "threads",
        "exact",        "check",      "trusted"})
    settings.erase(key);
  if (options.part.empty()) settings.erase("part");
  return settings;
}

}  // namespace

Json run_document(const Prepared& run, const TrainState& state, const RunFacts& facts) {
  Json doc;
  doc["schema"] = kRunSchema;
  doc["kind"] = "run";
  doc["run"] = {{"id", state.run},      {"name", facts.name}, {"command", facts.command},
                {"state", facts.state}, {"dir", facts.dir},   {"started", facts.started},
                {"step", state.step},   {"steps", run.steps}, {"seconds", state.seconds}};
  doc["network"] = run.options.network;
  doc["network_fingerprint"] =
      run.network_fingerprint.empty() ? Json(nullptr) : Json(run.network_fingerprint);
  doc["n"] = run.n();
  doc["device"] = run.options.device;
  doc["dtype"] = short_name(run.network.dtype());
  doc["exact"] = run.options.exact;
  doc["trusted"] = run.options.trusted;
  doc["optimizer"] = run.options.optimizer;
  doc["loss"] = run.options.loss;
  doc["schedule"] = run.options.schedule;
  doc["batch"] = run.network.batch();
  doc["steps_per_epoch"] = run.feed->steps_per_epoch();
  doc["monitor"] = {{"name", run.monitor().name}, {"more_is_better", run.monitor().more_is_better}};
  doc["defaults"] = run.defaults;
  doc["switched"] = {{"dropout", run.network.switched_dropout()},
                     {"batch_norm", run.network.switched_batch_norm()}};
  doc["data"] = {{"rows", learned_rows(run)},
                 {"validation_rows", held_rows(run, run.data.validation)},
                 {"test_rows", held_rows(run, run.data.test)},
                 {"classes", run.data.classes ? Json(run.data.classes) : Json(nullptr)},
                 {"folds", run.data.folds},
                 {"columns", to_json(run.data.train.columns)},
                 {"fingerprint", digest(run.fingerprint)},
                 {"split", split_fingerprint(run.data)}};
  doc["settings"] = settings_json(run.options);
  doc["frozen"] = run.frozen;
  doc["no_decay"] = run.no_decay.size();
  doc["memory"] = {{"state_bytes", facts.memory.state_bytes},
                   {"range_bytes", facts.memory.range_bytes},
                   {"models_at_a_time", facts.memory.models_at_a_time},
                   {"threads", facts.memory.threads},
                   {"recomputed", facts.memory.recomputed},
                   {"saved_bytes", facts.memory.saved_bytes}};
  doc["recordings"] = facts.recordings;
  doc["first_call_ns"] = facts.first_call_ns > 0 ? Json(facts.first_call_ns) : Json(nullptr);
  doc["checked_steps"] = std::min(run.options.check, state.step);
  doc["loop_seconds"] = facts.loop_seconds > 0 ? Json(facts.loop_seconds) : Json(nullptr);
  doc["results"] = Json::array();
  for (const Timing& timing : facts.results) doc["results"].push_back(to_json(timing));
  doc["environment"] = to_json(facts.environment);
  doc["models"] = Json::array();
  for (size_t i = 0; i < run.plan.models.size(); ++i)
    doc["models"].push_back(model_json(run, state, i));
  doc["ensemble"] = {{"validation", facts.ensemble}, {"test", facts.ensemble_test}};
  doc["configs"] = Json::array();
  for (const ConfigSummary& c : by_config(doc, {})) doc["configs"].push_back(to_json(c));
  doc["events"] = Json::array();
  for (const Event& e : state.events)
    doc["events"].push_back({{"step", e.step},
                             {"model", e.model < 0 ? Json(nullptr) : Json(e.model)},
                             {"what", e.what}});
  doc["history"] = Json::array();
  for (const Evaluated& e : state.history) {
    Json row = {
        {"step", e.step}, {"epoch", e.epoch}, {"seconds", e.seconds}, {"train_loss", e.train_loss}};
    for (const auto& [metric, values] : e.values) row[metric] = values;
    doc["history"].push_back(std::move(row));
  }
  doc["notes"] = facts.notes;
  for (const std::string& note : state.check_notes) doc["notes"].push_back(note);
  if (state.check_notes_left_out > 0)
    doc["notes"].push_back(fmt::format("{} more differences found by --check were no errors",
                                       state.check_notes_left_out));
  return doc;
}

int64_t learned_rows(const Prepared& run) {
  int64_t own = 0;
  for (int64_t m = 0; m < run.n(); ++m) own += run.feed->rows_of(m);
  if (run.data.by_model) return own;
  if (run.data.folds == 0) return run.feed->rows();
  size_t sum = 0;
  for (const Rows& fold : run.data.validation) sum += fold.size();
  return static_cast<int64_t>(sum);
}

std::string first_line(const Prepared& run, const std::string& start) {
  std::vector<std::string> parts;
  const size_t configs = run.plan.configs.size();
  parts.push_back(fmt::format("{} models of {}{}", run.n(), printable(run.options.network),
                              configs > 1 ? fmt::format(" ({} configurations)", configs) : ""));
  if (!run.options.part.empty())
    parts.push_back(fmt::format("part {}: those from {} on of {}, here counted from 0",
                                run.options.part, run.first_model, run.everyone.size()));
  parts.push_back(
      fmt::format("{} rows{}{}", learned_rows(run), run.data.by_model ? " of models' own" : "",
                  run.data.folds > 0 ? fmt::format(" in {} folds", run.data.folds)
                  : run.data.has_validation()
                      ? fmt::format(" and {} to validate", held_rows(run, run.data.validation))
                      : ""));
  if (!run.data.test.empty())
    parts.back() += fmt::format(" and {} to test", held_rows(run, run.data.test));
  parts.push_back(fmt::format("{} steps of {}", run.steps, run.network.batch()));
  parts.push_back("start " + start);
  if (const std::string text = run.network.switched_text(); !text.empty()) parts.push_back(text);
  std::vector<std::string> labels;
  for (const auto& [label, text] : run.plan.models[0].labels) labels.push_back(printable(label));
  if (!labels.empty())
    parts.push_back(fmt::format("label{} {}", labels.size() > 1 ? "s" : "", listing(labels, 9)));
  if (!run.frozen.empty()) parts.push_back(fmt::format("{} frozen", run.frozen.size()));
  if (!run.no_decay.empty())
    parts.push_back(fmt::format("{} without weight decay", run.no_decay.size()));
  if (!run.defaults.empty()) {
    std::vector<std::string> said;
    for (const auto& [key, value] : run.defaults) said.push_back(key + " " + value);
    parts.push_back(fmt::format("defaults: {}", fmt::join(said, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, " · "));
}

}  // namespace wide
