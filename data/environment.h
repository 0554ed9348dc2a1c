#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// What a measurement was taken on; without it a number means nothing.
struct Environment {
  std::string cpu;
  int cores = 0;         // that this process may use
  int threads = 0;       // that LibTorch uses
  std::string governor;  // "unknown" where the system does not say
  int64_t memory_bytes = 0;
  std::string gpu;  // empty: none was used
  std::string libtorch, workbench, git;
  std::string host, os, date, command;
};

/// `version` and `git` are those of the program, which only its build knows.
Environment capture_environment(const std::string& command, const std::string& version,
                                const std::string& git);

/// Memory that can be had without swapping.
int64_t available_memory();

/// The command line as it could be typed again.
std::string command_line(int argc, const char* const* argv);

}  // namespace wide
