#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
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

/// The group as seen by the process outside a sandbox: it sends and receives for the sandbox.
class AllGather {
 public:
  virtual ~AllGather() = default;
  /// Sends this rank's value for the next all-gather.
  virtual void send(const nlohmann::ordered_json& value) = 0;
  /// The values of all ranks as an array; nullopt until all have arrived. Call it often: it also
  /// sends heartbeats. Throws Error if a rank is lost or has ended too early.
  virtual std::optional<nlohmann::ordered_json> received() = 0;
  /// Whether a value was sent and the values of all are still awaited.
  virtual bool waiting() const = 0;
  /// Called when the sandbox has ended with `code` and perhaps a line for the user. Waits until all
  /// ranks have ended, and returns this process's exit code.
  virtual int end(int code, const std::string& line) = 0;
};
using MakeAllGather = std::function<std::unique_ptr<AllGather>()>;

}  // namespace wide
