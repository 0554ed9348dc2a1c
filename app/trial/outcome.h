#pragma once
#include <exception>

#include "data/reports/sweep/report.h"

namespace wide {

/// The estimated bytes that a case needs, and the available ones.
struct MemoryNeed {
  int64_t needed = 0, available = 0;
};

/// The reason text of an `oom` trial; `got` says how memory ran out, or that the trial was not run.
std::string out_of_memory_text(const std::string& thing, const std::string& got,
                               const MemoryNeed& memory);

/// The status that an exception stands for, and its reason in one line. Rethrows Cancelled,
/// BrokenDevice and anything that is no std::exception.
struct Outcome {
  Status status = Status::ok;
  std::string reason;
};
Outcome outcome_of(const std::exception_ptr& thrown, const std::string& name,
                   const MemoryNeed& memory);

}  // namespace wide
