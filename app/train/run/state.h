#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/train/options.h"
#include "engine/program.h"

namespace wide {

/// The state of one model. Its status is `running`, then how it ended: trained, stopped, pruned,
/// diverged.
struct ModelState {
  std::string status = "running";
  int64_t at_step = 0;                        // the step at which it ended
  std::optional<double> best;                 // best value of the monitored metric
  int64_t best_step = 0, without_better = 0;  // the latter counts evaluations since
  int64_t skipped = 0, skipped_since = 0;     // steps in all, and since the last evaluation
  std::map<std::string, double> at_best, last, test;

  bool running() const { return status == "running"; }
  /// Whether it was pruned: its best value comes from fewer steps than the others'.
  bool pruned() const { return status == "pruned"; }
};

/// All models at one evaluation; NaN: a model that did not run, or that has no such value.
struct Evaluated {
  int64_t step = 0;
  double epoch = 0, seconds = 0;  // seconds of training so far
  double wall_s = 0;              // since 1970
  std::vector<double> train_loss;
  std::vector<double> made;  // the steps that train_loss is the mean of; [] in early files
  std::map<std::string, std::vector<double>> values;  // by metric, of the validation rows

  /// Whether a model ran; it has no train_loss if it skipped every step.
  bool ran(size_t model) const;
};

struct Event {
  int64_t step = 0, model = -1;  // -1: of the whole run
  std::string what;
};

/// The state of a run, besides the trainer's own.
struct TrainState {
  int64_t step = 0;    // steps made so far
  double seconds = 0;  // time spent training
  std::vector<ModelState> models;
  std::vector<Evaluated> history;
  std::vector<Event> events;
  std::vector<std::string> check_notes;  // differences that --check found to be no errors
  int64_t check_notes_left_out = 0;      // number of further ones
  std::map<std::string, Tensor> best;    // weights of each model's best evaluation, [N, ...]
  Tensor loss_sum;                       // float64 [N] since the last evaluation
  int64_t loss_steps = 0;
  std::string run;                   // its number in the store; "": none
  std::string name;                  // of the run; "" in files of early versions
  std::string command, started;      // with which, and when it began; "" in files of early versions
  std::vector<std::string> resumes;  // "resumed at step 8: workbench train --resume runs/r"
};

/// The models that the mean answer is made of: those with a best value that were not pruned; if
/// there are none, those that were neither pruned nor diverged.
std::vector<int64_t> answering_models(const std::vector<ModelState>& models);
/// Why other models are left out: "2 without a finite value and 8 pruned left out"; "" if none are.
std::string left_out_text(const std::vector<ModelState>& models);

/// Without tensors.
nlohmann::ordered_json to_json(const TrainState& state);
TrainState state_of(const nlohmann::ordered_json& json);
nlohmann::ordered_json to_json(const TrainOptions& options);
/// Throws nlohmann's exception for anything else.
TrainOptions options_of(const nlohmann::ordered_json& json);

}  // namespace wide
