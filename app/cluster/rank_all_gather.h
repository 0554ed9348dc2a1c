#pragma once
#include <chrono>

#include "app/cluster/cluster.h"
#include "app/sandbox/group.h"

namespace wide {

/// An all-gather between the ranks of a training, through rank 0: each rank sends one JSON value,
/// and `received` returns those of all, in the order of the ranks.
class RankAllGather : public AllGather {
 public:
  /// `advice`: what to try when a rank is lost.
  RankAllGather(std::unique_ptr<Cluster> cluster, std::string advice);

  void send(const nlohmann::ordered_json& value) override;
  std::optional<nlohmann::ordered_json> received() override;
  bool waiting() const override { return waiting_; }
  int end(int code, const std::string& line) override;

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
