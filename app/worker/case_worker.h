#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "app/sweep/case/run.h"

namespace wide {

/// What a worker says of the case that it was given.
struct WorkerNews {
  std::string stage, trial;    // as of Stages, where there is no result yet
  std::optional<Case> result;  // the last news of a case
};

/// Runs cases, one at a time, wherever that is: in a process of this machine, or on another one.
/// What is on its way when it is stopped or lost is the queue's to give to another.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Gives it a case; returns at once. Once for every result.
  virtual void send(const SweepCase& planned) = 0;
  /// What it has to say, as soon as there is something, or nothing after `patience`. Throws Error
  /// where the sweep cannot go on.
  virtual std::optional<WorkerNews> receive(std::chrono::milliseconds patience) = 0;
  /// False: nothing will come any more, and nothing may be sent.
  virtual bool alive() = 0;
  /// The machine that it measures on, by `machine_name`; "": this one.
  virtual std::string machine() const { return ""; }
  /// Which one it is, for whoever is told that it is lost.
  virtual std::string name() const { return "a worker"; }
  /// Ends it soon, whatever it does.
  virtual void stop() = 0;
};

}  // namespace wide
