#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// A group of processes (ranks) that work together, each in a sandbox of its own. A sandbox may not
// use the network: the process outside forwards its messages to the others without reading them.
namespace wide {

/// The group as seen from inside a sandbox.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends `value`, waits for all ranks, and returns the values of all, by rank. Every rank must
  /// call it equally often.
  virtual std::vector<nlohmann::ordered_json> all_gather(const nlohmann::ordered_json& value) = 0;
  /// Sends the error line that this rank ends with to the process outside, for the other ranks.
  virtual void send_error(const std::string& line) = 0;
};

/// This process's group; nullptr if it works alone.
RankGroup* rank_group();
void set_rank_group(std::unique_ptr<RankGroup> group);

}  // namespace wide
