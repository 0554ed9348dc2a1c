#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/store/runs/run_request.h"

namespace wide {

class Store;

/// Stores fusions, training runs and tuning results.
class Keeper {
 public:
  Keeper();
  virtual ~Keeper();
  /// Uses the store at `db` from now on. Throws Error as Store does.
  virtual void open(const std::string& db);
  /// `fusion` as `fuse_document` makes it.
  virtual void add(const nlohmann::ordered_json& fusion);

  // Training runs. `document` is a run's report without its history.
  /// Begins a new run, or resumes `run` (if not "") from `step` and removes its newer rows. Returns
  /// the run's number.
  virtual std::string begin_run(const nlohmann::ordered_json& document, const std::string& run,
                                int64_t step);
  /// {"run": number, "rows": [[model, metric, step, value]], "events": [[step, model, text]],
  /// "times": [[step, seconds]], "refused": [[id of a request, text]]}
  virtual void tell_run(const nlohmann::ordered_json& rows);
  /// The requests to the run at its evaluation after `step` steps, each returned once. If the run
  /// `waits` for requests but nobody reads its output any more, this is a request to stop.
  virtual std::vector<RunRequest> take_requests(const std::string& run, int64_t step, bool waits);
  virtual void end_run(const std::string& run, const nlohmann::ordered_json& document);

 private:
  std::unique_ptr<Store> store_;
};

/// The keeper of this process: writes to the store, or in a sandbox sends requests to the process
/// outside.
Keeper& keeper();
void set_keeper(std::unique_ptr<Keeper> keeper);

}  // namespace wide
