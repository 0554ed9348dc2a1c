#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// A group of processes (ranks) that work together, each in a sandbox of its own. A sandbox may not
// use the network: the process outside forwards its messages to the others without reading them.
namespace wide {

/// The group as seen from inside a sandbox, which asks the process outside (`requests`).
class RankGroup {
 public:
  int rank() const;
  int size() const;
  /// Sends `value`, waits for all ranks, and returns the values of all, by rank. Every rank must
  /// call it equally often.
  std::vector<nlohmann::ordered_json> all_gather(const nlohmann::ordered_json& value);
  /// Sends the error line that this rank ends with to the process outside, for the other ranks.
  void send_error(const std::string& line);
};

/// This process's group; nullptr if it works alone.
RankGroup* rank_group();

}  // namespace wide
