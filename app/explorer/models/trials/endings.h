#pragma once
#include <string>

#include "data/reports/sweep/report.h"

namespace wide {

/// What a trial's status means to a user of the explorer, whose counts of failures all use it.
enum class Ending {
  right,
  incorrect,
  failed,       // crashed, or silent for too long
  left_out,     // unsupported, larger than the memory, or beyond the budget
  not_finished  // cancelled or interrupted: says nothing about the strategy
};
Ending ending_of(Status status);
/// Of a status as the store has it; a word it does not know is a failure.
Ending ending_of(const std::string& status);

}  // namespace wide
