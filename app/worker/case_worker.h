#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "app/sweep/case/run.h"

namespace wide {

/// A message of a worker about the case that it was given.
struct WorkerNews {
  std::string stage, trial;    // as in Stages, while there is no result yet
  std::optional<Case> result;  // set in the last message about a case
};

/// Runs cases, one at a time: in a process of this machine, or on another machine. If it is stopped
/// or lost during a case, the queue gives that case to another worker.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Starts a case and returns at once. The next call must wait for this case's result.
  virtual void send(const SweepCase& planned) = 0;
  /// The next message, or nullopt if none comes within `patience`. Throws Error if the sweep cannot
  /// go on.
  virtual std::optional<WorkerNews> receive(std::chrono::milliseconds patience) = 0;
  /// False once the worker is gone: no message will come, and none may be sent.
  virtual bool alive() = 0;
  /// The machine that it measures on, by `machine_name`; "": this one.
  virtual std::string machine() const { return ""; }
  /// The worker's name in the message that it is lost.
  virtual std::string name() const { return "a worker"; }
  /// Ends the worker soon, even in the middle of a case.
  virtual void stop() = 0;
};

}  // namespace wide
