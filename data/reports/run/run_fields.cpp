#include "data/reports/run/run_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr FieldRule kNumber{.finite = true};
constexpr FieldRule kFrom0{.minimum = 0, .finite = true};
constexpr FieldRule kFrom1{.minimum = 1};
constexpr FieldRule kNotKnown{.presence = Presence::null};
constexpr FieldRule kOlderLack{.presence = Presence::later};
constexpr FieldRule kNotSaid{.presence = Presence::omitted};

constexpr FieldRule kSpread{.presence = Presence::null, .definition = "#/$defs/spread"};

constexpr FieldRule described(FieldRule rule, const char* text) {
  rule.description = text;
  return rule;
}

}  // namespace

void describe(Fields& fields, DataColumns& columns) {
  fields.add("table", columns.table, described({}, "a CSV file, each column a number a row"));
  fields.add("inputs", columns.inputs, described({}, "by forward's argument, in order"));
  fields.add("target", columns.target);
  fields.add("weight", columns.weight);
  fields.add("fold", columns.fold);
  fields.add("group", columns.group);
  fields.add("left_out", columns.left_out, described({}, "used for nothing"));
}

void describe(Fields& fields, RunHead& head) {
  fields.add("id", head.id, described({}, "number in the store; empty: not stored"));
  fields.add("name", head.name);
  fields.add("command", head.command);
  fields.add("state", head.state, {.words = "running complete interrupted"});
  fields.add("dir", head.dir);
  fields.add("started", head.started);
  fields.add("step", head.step, kFrom0);
  fields.add("steps", head.steps, kFrom1);
  fields.add("seconds", head.seconds, kFrom0);
}

void describe(Fields& fields, RunMonitor& monitor) {
  fields.add("name", monitor.name);
  fields.add("more_is_better", monitor.more_is_better);
}

void describe(Fields& fields, RunData& data) {
  fields.add("rows", data.rows, kFrom1);
  fields.add("validation_rows", data.validation_rows, kFrom0);
  fields.add("test_rows", data.test_rows, kFrom0);
  fields.add("classes", data.classes, kNotKnown);
  fields.add("folds", data.folds, kFrom0);
  fields.add("columns", data.columns,
             described(kNotSaid,
                       "names of the training data's columns by what they are used for; files of "
                       "later rows are matched by them; missing in runs of older versions"));
  fields.add("fingerprint", data.fingerprint,
             described(kNotSaid,
                       "stands for the columns that are read and their values; earlier "
                       "reports have none"));
  fields.add("split", data.split,
             described(kNotSaid,
                       "stands for which rows are learned from, validated and tested; "
                       "earlier reports have none"));
}

void describe(Fields& fields, SwitchedModes& switched) {
  fields.add("dropout", switched.dropout, kFrom0);
  fields.add("batch_norm", switched.batch_norm, kFrom0);
}

void describe(Fields& fields, TrainerMemory& memory) {
  fields.add("state_bytes", memory.state_bytes,
             described(kFrom0, "parameters, buffers, moments of all models"));
  fields.add("range_bytes", memory.range_bytes,
             described(kFrom0,
                       "activations and gradients of the models that one thread has at a "
                       "time; 0 before the first step"));
  fields.add("models_at_a_time", memory.models_at_a_time, kFrom0);
  fields.add("threads", memory.threads, kFrom1);
  fields.add("recomputed", memory.recomputed,
             {.presence = Presence::later,
              .minimum = 0,
              .description = "operator calls that a step makes a second time to save memory"});
  fields.add("saved_bytes", memory.saved_bytes,
             {.presence = Presence::later,
              .minimum = 0,
              .description = "bytes of range_bytes that these second calls save"});
}

void describe(Fields& fields, ModelSeeds& seeds) {
  fields.add("init", seeds.init, kFrom0);
  fields.add("order", seeds.order, kFrom0);
  fields.add("dropout", seeds.dropout, kFrom0);
}

void describe(Fields& fields, BestEvaluation& best) {
  fields.add("step", best.step, kFrom0);
  fields.rest(&best.values, {});
}

void describe(Fields& fields, ModelReport& model) {
  fields.add("model", model.number, {.column = "", .minimum = 0});
  fields.add("name", model.name);
  fields.add("config", model.config, {.column = "", .minimum = 0});
  fields.add("fold", model.fold, {.presence = Presence::null, .column = "", .none = -1});
  fields.add("seeds", model.seeds);
  fields.add("hyperparameters", model.hyperparameters, kNumber);
  fields.add("labels", model.labels);
  fields.add("status", model.status,
             {.column = "", .words = "running trained stopped pruned diverged interrupted"});
  fields.add("at_step", model.at_step, {.column = "", .minimum = 0});
  fields.add("best", model.best, kNotKnown);
  fields.add("last", model.last);
  fields.add("test", model.test);
}

void describe(Fields& fields, RunEvent& event) {
  fields.add("step", event.step, kFrom0);
  fields.add("model", event.model, {.presence = Presence::null, .none = -1});
  fields.add("what", event.what);
}

void describe(Fields& fields, RunEvaluation& evaluation) {
  constexpr FieldRule kNotStored{
      .presence = Presence::omitted, .none = -1, .minimum = 0, .finite = true};
  fields.add("step", evaluation.step, kFrom0);
  fields.add("epoch", evaluation.epoch, kNotStored);
  fields.add("seconds", evaluation.seconds, kNotStored);
  fields.add("train_loss", evaluation.train_loss, described(kOlderLack, "by model"));
  fields.rest(&evaluation.values, {});
}

void describe(Fields& fields, MeanAnswer& answer) {
  fields.add("validation", answer.validation);
  fields.add("test", answer.test);
}

void describe(Fields& fields, Spread& spread) {
  fields.add("n", spread.n, kFrom1);
  fields.add("mean", spread.mean, kNumber);
  fields.add("sd", spread.sd,
             {.presence = Presence::null, .none = -HUGE_VAL, .shown = spread.n > 1});
  fields.add("iqm", spread.iqm, kNumber);
  Interval ends{spread.mean, spread.low, spread.high};
  fields.add("ci95", ends);
  if (!fields.fills()) return;
  spread.low = ends.low;
  spread.high = ends.high;
}

void describe(Fields& fields, MetricSummary& metric) {
  fields.add("validation", metric.validation, kSpread);
  fields.add("test", metric.test, kSpread);
}

void describe(Fields& fields, ConfigSummary& config) {
  MetricSummary monitored = config.metrics.empty() ? MetricSummary{} : config.metrics.front();
  Spread over = monitored.validation.value_or(Spread{});
  Interval ends{over.mean, over.low, over.high};
  const auto known = [](bool shown) {
    return FieldRule{.presence = Presence::null, .none = -HUGE_VAL, .shown = shown};
  };
  const bool any = monitored.validation.has_value();
  fields.add("hyperparameters", config.hyperparameters, kNumber);
  fields.add("metric", monitored.name);
  fields.add("n", config.n,
             described(kFrom0,
                       "models that were not pruned: the mean and all beside it are over "
                       "these"));
  fields.add("pruned", config.pruned,
             {.presence = Presence::later,
              .minimum = 0,
              .description = "models left out of the mean; earlier reports have none"});
  fields.add("mean", over.mean, known(any));
  fields.add("sd", over.sd, known(any && over.n > 1));
  fields.add("iqm", over.iqm, known(any));
  fields.add("ci95", ends, known(any));
  fields.add("test", monitored.test, kSpread);
  std::map<std::string, MetricSummary> metrics;
  for (const MetricSummary& m : config.metrics) metrics[m.name] = m;
  fields.add(
      "metrics", metrics,
      described(kOlderLack, "all of them, the monitored one too; earlier reports have none"));
  fields.add("statuses", config.statuses, kFrom1);
}

void describe_head(Fields& fields, RunReport& r) {
  fields.add("run", r.run);
  fields.add("network", r.network);
  fields.add("n", r.n, kFrom1);
  fields.add("steps_per_epoch", r.steps_per_epoch, {.presence = Presence::later, .minimum = 1});
  fields.add("monitor", r.monitor);
}

void describe_models(Fields& fields, RunReport& r) {
  fields.add("models", r.models, {.definition = "#/$defs/model"});
  fields.add("events", r.events);
}

void describe(Fields& fields, RunReport& r) {
  describe_head(fields, r);
  fields.add("network_fingerprint", r.network_fingerprint,
             described(kNotKnown,
                       "stands for the operators, sizes and constants of both forms; null "
                       "where they are not known, earlier reports have none"));
  fields.add("device", r.device);
  fields.add("dtype", r.dtype);
  fields.add("exact", r.exact);
  fields.add("trusted", r.trusted, kOlderLack);
  fields.add("optimizer", r.optimizer);
  fields.add("loss", r.loss);
  fields.add("schedule", r.schedule);
  fields.add("batch", r.batch, kFrom1);
  fields.add("defaults", r.defaults);
  fields.add("switched", r.switched);
  fields.add("data", r.data);
  fields.add("settings", r.settings,
             described(kNotSaid,
                       "options of train that have no place of their own here and change "
                       "what is learned; earlier reports have none"));
  fields.add("frozen", r.frozen);
  fields.add("no_decay", r.no_decay, kFrom0);
  fields.add("memory", r.memory, kNotKnown);  // null for a run merged from parts
  fields.add("recordings", r.recordings,
             {.presence = Presence::null,
              .minimum = 0,
              .description = "programs recorded for steps and evaluations; null where there were "
                             "none, or parts were put together"});
  fields.add("first_call_ns", r.first_call_ns,
             described(kNotKnown, "of the first step, recording and planning included"));
  fields.add("checked_steps", r.checked_steps, described(kFrom0, "held against float64"));
  fields.add("loop_seconds", r.loop_seconds, kNotKnown);
  fields.add("results", r.results, {.definition = "common.json#/$defs/timing"});
  fields.add("environment", r.environment, {.definition = "common.json#/$defs/environment"});
  describe_models(fields, r);
  fields.add(
      "ensemble", r.ensemble,
      described(kOlderLack, "metrics of the models' mean answer, each with its best weights"));
  std::vector<ConfigSummary> configs;  // derived from the models, for readers
  if (!fields.fills()) configs = by_config(r, r.by);
  fields.add("configs", configs, {.definition = "#/$defs/config"});
  fields.add("history", r.history, described({}, "the store keeps neither epoch nor seconds"));
  fields.add("notes", r.notes);
}

nlohmann::ordered_json to_json(const RunReport& report) {
  nlohmann::ordered_json json = {{"schema", kRunSchema}, {"kind", "run"}};
  json.update(fields_json(report));
  return json;
}

RunReport run_from_json(const nlohmann::ordered_json& json, const std::string& where,
                        UnknownFields unknown) {
  int64_t schema = 0;
  std::string kind = "another document";
  if (json.is_object() && json.contains("kind") && json.contains("schema"))
    read_fields(json, where, UnknownFields::ignored, [&](Fields& fields) {
      fields.add("schema", schema);
      fields.add("kind", kind);
    });
  if (kind != "run")
    fail("[{}] report: got {}, expected a training run's; try another file", where, kind);
  if (schema != kRunSchema)
    fail("[{}] schema: got {}, expected {}; try the workbench that wrote it", where, schema,
         kRunSchema);
  RunReport report;
  read_fields(json, where, unknown, [&](Fields& fields) {
    fields.add("schema", schema);
    fields.add("kind", kind);
    describe(fields, report);
  });
  if (report.models.empty())
    fail("[{}] models: got none, expected at least one; try a report that the workbench wrote",
         where);
  return report;
}

}  // namespace wide
