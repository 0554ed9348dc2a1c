#pragma once
#include <chrono>

#include "app/cell/group.h"
#include "app/cluster/cluster.h"

namespace wide {

/// Meetings of ranks: what each says goes to rank 0, and from there to all.
class RankMeetings : public Meetings {
 public:
  /// `advice`: what to try when a rank is lost.
  RankMeetings(std::unique_ptr<Cluster> cluster, std::string advice);

  void say(const nlohmann::ordered_json& word) override;
  std::optional<nlohmann::ordered_json> heard() override;
  bool waiting() const override { return waiting_; }
  int end(int code, const std::string& line) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::vector<nlohmann::ordered_json> words;  // not answered yet
    std::optional<int> code;                    // that it has ended with
    std::string line;
  };
  void listen();
  void expect_alive();
  /// The first rank that has ended with an error, or -1.
  int failed() const;

  std::unique_ptr<Cluster> cluster_;
  std::string advice_;
  std::vector<Peer> peers_;
  std::vector<nlohmann::ordered_json> answers_;  // of rank 0
  bool waiting_ = false;
  std::optional<int> over_;  // the code that rank 0 has ended with
  std::optional<Clock::time_point> failed_since_;
};

}  // namespace wide
