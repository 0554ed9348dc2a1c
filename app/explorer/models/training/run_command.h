#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace wide {

/// Options to change for another run: "--lr" to "1e-3,1e-2".
using ChangedOptions = std::vector<std::pair<std::string, std::string>>;

/// The shell command `command` with these options replaced or added; empty values change nothing.
/// Options that resume an earlier run are removed.
std::string changed_command(const std::string& command, const ChangedOptions& changes);

/// The value of an option in the command; "" if it is not there.
std::string option_value(const std::string& command, const std::string& option);

/// Models of a run whose best checkpoints are copied.
struct CheckpointsOf {
  int64_t run = 0;                             // its number
  std::string folder;                          // of the run
  std::optional<std::vector<int64_t>> models;  // nullopt: all
};
/// Copies the best checkpoints of these models into the new folder `folder`, those of several runs
/// into `run-1`, `run-2` in it. Returns how many. Throws Error, having copied nothing, if a run has
/// none of them, and if files cannot be written.
size_t copy_best_checkpoints(const std::vector<CheckpointsOf>& runs, const std::string& folder);

}  // namespace wide
