#pragma once
#include <stdexcept>

namespace wide {

/// Thrown after Ctrl-C; `exit_code_of` catches it and returns 130.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled") {}
};

/// From now on SIGINT and SIGTERM ask for a clean end; a second one ends at once.
void catch_cancel();
bool cancelled();
/// Throws Cancelled after SIGINT or SIGTERM.
void check_cancelled();

}  // namespace wide
