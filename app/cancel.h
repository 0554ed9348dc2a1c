#pragma once
#include <stdexcept>

namespace wide {

/// Ctrl-C was pressed; unwinds to the command line, which exits with 130.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled") {}
};

/// From now on SIGINT and SIGTERM ask for a clean end; a second one ends at once.
void catch_cancel();
bool cancelled();
/// Throws Cancelled once asked.
void check_cancelled();

}  // namespace wide
