#include "app/train/outputs/report.h"

#include <nlohmann/json.hpp>

#include "app/sandbox/group.h"
#include "app/train/inputs/fingerprint.h"
#include "data/bytes/digest.h"
#include "data/tensors.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

ModelReport model_of(const ModelSettings& settings, const ModelState& state) {
  const auto seed = [](uint64_t value) { return static_cast<int64_t>(value); };
  ModelReport m;
  m.name = settings.name;
  m.config = settings.config;
  m.fold = settings.fold;
  m.seeds = {seed(settings.seed_init), seed(settings.seed_order), seed(settings.seed_dropout)};
  m.hyperparameters = settings.hyper;
  m.labels = settings.labels;
  m.status = state.status;
  m.at_step = state.at_step;
  if (state.best) m.best = BestEvaluation{state.best_step, state.at_best};
  m.last = state.last;
  m.test = state.test;
  return m;
}

/// How many rows are in a set: of one fold if there are folds, of all models together if they have
/// rows of their own.
int64_t held_rows(const Prepared& run, const std::vector<Rows>& rows) {
  size_t sum = 0;
  for (const Rows& own : rows)
    if (run.data.by_model || &own == &rows[0]) sum += own.size();
  return static_cast<int64_t>(sum);
}

/// Options to be listed in the report. Left out: hyperparameters and what the report states anyway,
/// paths, data and models, the length of the run, and options that change only the last bits.
std::map<std::string, JsonText> settings_of(const TrainOptions& options) {
  Json settings = to_json(options);
  for (const char* key :
       {"network",    "eval_model", "data",     "validation",   "test",
        "columns",    "target",     "fold",     "group",        "rows",
        "epoch_data", "n",          "seeds",    "seed",         "models",
        "set",        "grid",       "lr",       "weight_decay", "momentum",
        "loss",       "optimizer",  "schedule", "batch",        "epochs",
        "steps",      "metrics",    "monitor",  "save",         "log",
        "no_save",    "save_every", "keep",     "dtype",        "device",
        "threads",    "exact",      "check",    "trusted",      "validation_of_rest"})
    settings.erase(key);
  if (options.part.empty()) settings.erase("part");
  std::map<std::string, JsonText> all;
  for (const auto& [key, value] : settings.items()) all[key].text = value.dump();
  return all;
}

}  // namespace

RunReport run_report(const Prepared& run, const TrainState& state, RunReport facts) {
  RunReport r = std::move(facts);
  r.run.id = state.run;
  r.run.step = state.step;
  r.run.steps = run.steps;
  r.run.seconds = state.seconds;
  r.network = run.options.network;
  r.network_fingerprint = run.network_fingerprint.both;
  r.n = run.n();
  r.device = run.options.device;
  r.dtype = short_name(run.network.dtype());
  r.exact = run.options.exact;
  r.trusted = run.options.trusted;
  r.optimizer = run.options.optimizer;
  r.loss = run.options.loss;
  r.schedule = run.options.schedule;
  r.batch = run.network.batch();
  r.steps_per_epoch = run.feed->steps_per_epoch();
  r.monitor = {run.monitor().name, run.monitor().more_is_better};
  r.defaults = run.defaults;
  r.switched = {run.network.switched_dropout(), run.network.switched_batch_norm()};
  r.data.rows = learned_rows(run);
  r.data.validation_rows = held_rows(run, run.data.validation);
  r.data.test_rows = held_rows(run, run.data.test);
  r.data.classes = run.data.classes;
  r.data.folds = run.data.folds;
  r.data.columns = run.data.train.columns;
  r.data.fingerprint = digest(run.fingerprint);
  r.data.split = split_fingerprint(run.data);
  r.settings = settings_of(run.options);
  r.frozen.assign(run.frozen.begin(), run.frozen.end());
  r.no_decay = static_cast<int64_t>(run.no_decay.size());
  r.checked_steps = std::min(run.options.check, state.step);
  for (size_t i = 0; i < run.configurations.models.size(); ++i) {
    r.models.push_back(model_of(run.configurations.models[i], state.models[i]));
    r.models.back().number = static_cast<int64_t>(i);
  }
  for (const Event& e : state.events) r.events.push_back({e.step, e.model, e.what});
  for (const Evaluated& e : state.history)
    r.history.push_back({e.step, e.epoch, e.seconds, e.train_loss, e.values});
  r.notes.insert(r.notes.end(), state.check_notes.begin(), state.check_notes.end());
  if (state.check_notes_left_out > 0)
    r.notes.push_back(fmt::format("{} more differences found by --check were no errors",
                                  state.check_notes_left_out));
  return r;
}

RunReport report_of_all(const Prepared& run, const RunReport& facts) {
  TrainState state;
  state.models.resize(run.everyone.size());
  RunReport r = run_report(run, state, facts);
  r.settings.erase("part");
  r.n = static_cast<int64_t>(run.everyone.size());
  r.models.clear();
  for (size_t i = 0; i < run.everyone.size(); ++i) {
    r.models.push_back(model_of(run.everyone[i], state.models[i]));
    r.models.back().number = static_cast<int64_t>(i);
  }
  return r;
}

int64_t learned_rows(const Prepared& run) {
  size_t sum = 0;
  if (run.data.by_model) {
    for (const Rows& own : run.data.train_rows) sum += own.size();
    return static_cast<int64_t>(sum);
  }
  if (run.data.folds == 0) return run.feed->rows();
  for (const Rows& fold : run.data.validation) sum += fold.size();
  return static_cast<int64_t>(sum);
}

std::string first_line(const Prepared& run, const std::string& start) {
  std::vector<std::string> parts;
  const size_t configs = run.configurations.configs.size();
  parts.push_back(fmt::format("{} models of {}{}", run.n(), printable(run.options.network),
                              configs > 1 ? fmt::format(" ({} configurations)", configs) : ""));
  if (rank_group())
    parts.push_back(
        fmt::format("of {}, which {} ranks train", run.everyone.size(), rank_group()->size()));
  else if (!run.options.part.empty())
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
  for (const auto& [label, text] : run.configurations.models[0].labels)
    labels.push_back(printable(label));
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
