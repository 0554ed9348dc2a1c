#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/machine/environment.h"
#include "data/reports/fields.h"
#include "engine/train/trainer.h"

namespace wide {

/// The names of a data file's columns, by what they are used for. A run keeps those of its training
/// data: other files are matched with them by name, in whatever order their columns stand.
struct DataColumns {
  bool table = false;  // a CSV file: one number per row and column
  std::map<std::string, std::vector<std::string>> inputs;  // by forward's argument, in order
  std::vector<std::string> target, weight, fold, group;    // at most one each, except targets
  std::vector<std::string> left_out;                       // columns that are not used
};

struct RunHead {
  std::string id;  // number in the store; "": not stored
  std::string name, command, state = "running", dir, started;
  int64_t step = 0, steps = 0;  // steps made, steps in all
  double seconds = 0;           // time spent training
};

/// The metric by which a run's models are compared.
struct RunMonitor {
  std::string name;
  bool more_is_better = false;
};

/// The data of a run. Fingerprints identify contents; "" in reports of earlier versions.
struct RunData {
  int64_t rows = 0, validation_rows = 0, test_rows = 0, folds = 0;
  int64_t classes = 0;  // 0: targets are not classes
  std::optional<DataColumns> columns;
  std::string fingerprint, split;
};

/// How many operators train in another mode than the one they were exported in.
struct SwitchedModes {
  int64_t dropout = 0, batch_norm = 0;
};

struct ModelSeeds {
  int64_t init = 0, order = 0, dropout = 0;
  bool operator==(const ModelSeeds&) const = default;
};

/// A model's evaluation with the best value of the monitored metric.
struct BestEvaluation {
  int64_t step = 0;
  std::map<std::string, double> values;  // by metric
};

struct ModelReport {
  int64_t number = 0;
  std::string name;
  int64_t config = 0, fold = -1;  // fold -1: there are none
  ModelSeeds seeds;
  std::map<std::string, double> hyperparameters;  // "lr" to 0.1
  std::map<std::string, std::string> labels;
  std::string status;   // running, or why the model ended
  int64_t at_step = 0;  // the step at which it ended
  std::optional<BestEvaluation> best;
  std::map<std::string, double> last, test;  // by metric; test: of the test rows

  bool pruned() const { return status == "pruned"; }
};

struct RunEvent {
  int64_t step = 0, model = -1;  // -1: of the whole run
  std::string what;
};

/// All models at one evaluation; NaN: a model that did not run.
struct RunEvaluation {
  int64_t step = 0;
  double epoch = -1, seconds = -1;  // of training; -1: unknown, as in the store
  std::vector<double> train_loss;
  std::map<std::string, std::vector<double>> values;  // by metric, of the validation rows
};

/// Metrics of the mean of the models' outputs, each model with its best weights.
struct MeanAnswer {
  std::map<std::string, double> validation, test;
};

/// The report of a training run.
struct RunReport {
  RunHead run;
  std::string network;
  std::string network_fingerprint;  // of its operators and sizes; "": not known
  int64_t n = 0;
  std::string device, dtype;
  bool exact = false, trusted = false;
  std::string optimizer, loss, schedule;
  int64_t batch = 0;
  int64_t steps_per_epoch = 1;
  RunMonitor monitor;
  std::map<std::string, std::string> defaults;  // values of options that were not given
  SwitchedModes switched;
  RunData data;
  std::map<std::string, JsonText> settings;  // by option; empty in reports of earlier versions
  std::vector<std::string> frozen;           // parameters that are not trained
  int64_t no_decay = 0;                      // number of parameters without weight decay
  std::optional<TrainerMemory> memory;       // none for a run that was merged from parts
  int64_t recordings = 0;     // programs that were recorded for steps and evaluations; 0: not known
  double first_call_ns = 0;   // first step, with recording and planning; 0: no step was made
  int64_t checked_steps = 0;  // first steps that were compared with float64
  double loop_seconds = 0;    // estimate for separate runs; 0: unknown
  std::vector<Timing> results;  // with --bench
  Environment environment;
  std::vector<ModelReport> models;
  std::vector<RunEvent> events;
  MeanAnswer ensemble;
  std::vector<std::string> by;  // hyperparameters that form configurations; none: all that differ
  std::vector<RunEvaluation> history;
  std::vector<std::string> notes;
};

}  // namespace wide
