#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace wide {

/// How many processes the system has ended so far because memory was short: in this process's
/// control group and on the whole machine. nullopt: unknown. `root`: "" is the system itself.
std::optional<int64_t> memory_kills(const std::string& root = "");

/// Bytes that this process may take before a control group's limit, its own group's or that of one
/// around it, whichever is nearest; nullopt: none has a limit that can be read. `root` as above.
std::optional<int64_t> memory_left_in_groups(const std::string& root = "");

/// Finds out whether the system has killed a process for lack of memory since this object was made.
class MemoryKills {
 public:
  bool any() const {
    const std::optional<int64_t> now = memory_kills();
    return before_ && now && *now > *before_;
  }

 private:
  std::optional<int64_t> before_ = memory_kills();
};

}  // namespace wide
