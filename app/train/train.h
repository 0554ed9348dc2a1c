#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/train/options.h"
#include "app/train/run/saving.h"

namespace wide {

/// Where a run's results go besides its folder.
struct TrainSinks {
  std::string json, name, command;
  std::string started;  // "": now
  bool quiet = false, store = true, bench = false;
  bool wait = false;      // at each evaluation, for the request to go on
  std::string plan;       // strategies and ranges of an earlier run
  double budget_s = 1.5;  // of --bench, for each contender
  std::string db;
  std::vector<std::string> require;  // 'accuracy>=0.95'
  std::shared_ptr<const RunReport> against;
  std::vector<std::string> exports;  // .pt2, .ts: the evaluation form with the best weights
  std::string unstack;               // a folder for a file a model, with those
  double worse_percent = 0;        // exit code 3 where it is worse than that one by more; 0: never
  std::vector<std::string> lacks;  // what the system does not offer, for the notes
};

/// Trains, from the start or from where `saved` is; returns the exit code.
int train(const TrainOptions& options, const TrainSinks& sinks, const SavedRun* saved);

}  // namespace wide
