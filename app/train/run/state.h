#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/train/options.h"
#include "engine/program.h"

namespace wide {

/// Where one model stands. Its status: running, then one of the contract's words.
struct ModelState {
  std::string status = "running";
  int64_t at_step = 0;                        // of the status, where it is not "trained"
  std::optional<double> best;                 // of what is monitored
  int64_t best_step = 0, without_better = 0;  // the latter: evaluations
  int64_t skipped = 0, skipped_since = 0;     // steps; the latter: since the last evaluation
  std::map<std::string, double> at_best, last, test;

  bool running() const { return status == "running"; }
  /// Its best value is of fewer steps than the others had.
  bool pruned() const { return status == "pruned"; }
};

/// All models at one evaluation; NaN: a model that did not run.
struct Evaluated {
  int64_t step = 0;
  double epoch = 0, seconds = 0;  // the latter: of training
  double wall_s = 0;              // since 1970
  std::vector<double> train_loss;
  std::map<std::string, std::vector<double>> values;  // by metric, of the validation rows
};

struct Event {
  int64_t step = 0, model = -1;  // -1: of the whole run
  std::string what;
};

/// All that a run knows of itself besides the trainer's own state.
struct TrainState {
  int64_t step = 0;    // made so far
  double seconds = 0;  // of training
  std::vector<ModelState> models;
  std::vector<Evaluated> history;
  std::vector<Event> events;
  std::vector<std::string> check_notes;  // differences that --check found to be no errors
  int64_t check_notes_left_out = 0;      // further ones
  std::map<std::string, Tensor> best;    // weights of each model's best evaluation, [N, ...]
  Tensor loss_sum;                       // float64 [N] since the last evaluation
  int64_t loss_steps = 0;
  std::string run;  // its number in the store; "": none
};

/// Those whose answers the mean answer is of: not pruned and with a best value, or where no such
/// model has one those that were not pruned and did not diverge.
std::vector<int64_t> answering_models(const std::vector<ModelState>& models);
/// Why the others are left out: "2 without a finite value and 8 pruned left out"; "": none is.
std::string left_out_text(const std::vector<ModelState>& models);

/// Without tensors.
nlohmann::ordered_json to_json(const TrainState& state);
TrainState state_of(const nlohmann::ordered_json& json);
nlohmann::ordered_json to_json(const TrainOptions& options);
/// Throws nlohmann's exception for anything else.
TrainOptions options_of(const nlohmann::ordered_json& json);

}  // namespace wide
