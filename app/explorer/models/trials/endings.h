#pragma once
#include <string>

#include "data/reports/sweep/report.h"

namespace wide {

/// The meaning of a trial's status for users of the explorer; all of its counts of failures use it.
enum class Ending {
  right,
  incorrect,
  failed,       // crashed, or no heartbeat for too long
  left_out,     // unsupported, larger than the memory, or beyond the budget
  not_finished  // cancelled or interrupted: says nothing about the strategy
};
Ending ending_of(Status status);
/// The ending for a status in the store; an unknown word counts as a failure.
Ending ending_of(const std::string& status);

}  // namespace wide
