#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/train/options.h"
#include "app/train/run/saving.h"

namespace wide {

/// Options of a run that say where results go besides its folder, and how it is watched.
struct TrainSinks {
  std::string json, name, command;
  std::string started;  // "": now
  bool quiet = false, store = true, bench = false;
  bool wait = false;      // wait at each evaluation for a request to go on
  std::string plan;       // strategies and ranges of an earlier run
  double budget_s = 1.5;  // --bench: seconds for each contender
  std::string db;
  std::vector<std::string> require;  // 'accuracy>=0.95'
  std::shared_ptr<const RunReport> against;
  std::vector<std::string> exports;  // .pt2, .ts: the evaluation form with the best weights
  std::string unstack;               // a folder for a checkpoint of each model, best weights
  double worse_percent = 0;          // exit code 3 if it is worse than `against` by more; 0: never
  std::vector<std::string> lacks;    // what the system cannot do (locks), for the notes
};

/// Trains from the start, or from the state `saved`; returns the exit code.
int train(const TrainOptions& options, const TrainSinks& sinks, const SavedRun* saved);

}  // namespace wide
