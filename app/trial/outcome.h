#pragma once
#include <exception>

#include "data/reports/sweep/report.h"

namespace wide {

/// Bytes that a case needs by estimate, and what can be had.
struct MemoryNeed {
  int64_t needed = 0, available = 0;
};

/// The reason of an `oom` trial; `got` says how memory ran out, or that it was not tried.
std::string out_of_memory_text(const std::string& thing, const std::string& got,
                               const MemoryNeed& memory);

/// How whoever threw ended, and why in one line. Cancelled, BrokenDevice,
/// and what is no std::exception, go on.
struct Outcome {
  Status status = Status::ok;
  std::string reason;
};
Outcome outcome_of(const std::exception_ptr& thrown, const std::string& name,
                   const MemoryNeed& memory);

}  // namespace wide
