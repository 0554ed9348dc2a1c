#pragma once
#include <string>

#include "data/reports/sweep/report.h"

namespace wide {

/// What the end of a trial means to who looks at a sweep. Everything that counts failures asks
/// here.
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
