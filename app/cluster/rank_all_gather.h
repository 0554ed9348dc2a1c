#pragma once
#include <chrono>

#include "app/cluster/cluster.h"

namespace wide {

/// An all-gather between the ranks of a training, through rank 0: each rank sends one JSON value,
/// and `received` returns those of all, in the order of the ranks. The process outside a sandbox
/// sends and receives for it.
class RankAllGather {
 public:
  /// `advice`: what to try when a rank is lost.
  RankAllGather(std::unique_ptr<Cluster> cluster, std::string advice);

  /// Sends this rank's value for the next all-gather.
  void send(const nlohmann::ordered_json& value);
  /// The values of all ranks as an array; nullopt until all have arrived. Call it often: it also
  /// sends heartbeats. Throws Error if a rank is lost or has ended too early.
  std::optional<nlohmann::ordered_json> received();
  /// Whether a value was sent and the values of all are still awaited.
  bool waiting() const { return waiting_; }
  /// Called when the sandbox has ended with `code` and perhaps a line for the user. Waits until all
  /// ranks have ended, and returns this process's exit code.
  int end(int code, const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::vector<nlohmann::ordered_json> values;  // not gathered yet
    std::optional<int> code;                     // its exit code, once it has ended
    std::string line;
  };
  void listen();
  void expect_alive();
  /// The first rank that has ended with an error, or -1.
  int failed() const;

  std::unique_ptr<Cluster> cluster_;
  std::string advice_;
  std::vector<Peer> peers_;
  std::vector<nlohmann::ordered_json> gathered_;  // not yet returned by `received`
  bool waiting_ = false;
  std::optional<int> over_;  // rank 0's exit code, once it has ended
  std::optional<Clock::time_point> failed_since_;
};

}  // namespace wide
