#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/store/runs/run_request.h"

namespace wide {

class Store;

/// Where fusions and training runs are kept, and what tuning found on the way.
class Keeper {
 public:
  Keeper();
  virtual ~Keeper();
  /// From now on in the store at `db`. Throws Error as the store does.
  virtual void open(const std::string& db);
  /// `fusion` as `fuse_document` makes it.
  virtual void add(const nlohmann::ordered_json& fusion);

  // Training runs. `document` is a run's report without its history.
  /// A new run, or (`run` not "") one that goes on from `step`: what is newer goes. Its number.
  virtual std::string begin_run(const nlohmann::ordered_json& document, const std::string& run,
                                int64_t step);
  /// {"run": number, "rows": [[model, metric, step, value]], "events": [[step, model, text]],
  /// "times": [[step, seconds]], "refused": [[id of a request, text]]}
  virtual void tell_run(const nlohmann::ordered_json& rows);
  /// What the run is asked at its evaluation after `step` steps, each once. One that `waits` is
  /// asked to stop where nobody reads its output any more, as nobody will answer.
  virtual std::vector<RunRequest> take_requests(const std::string& run, int64_t step, bool waits);
  virtual void end_run(const std::string& run, const nlohmann::ordered_json& document);

 private:
  std::unique_ptr<Store> store_;
};

/// Of this process: the store itself, unless it may open none and has to ask.
Keeper& keeper();
void set_keeper(std::unique_ptr<Keeper> keeper);

}  // namespace wide
