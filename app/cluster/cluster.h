#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

struct MpiTransport;

namespace wide {

/// The ranks (processes) that run this program together; they exchange messages of JSON. Only one
/// thread may use it.
class Cluster {
 public:
  /// Joins the ranks started by the same launcher; nullptr if no launcher started this process.
  /// Throws Error (exit code 1) if the MPI plugin is missing or the ranks cannot connect.
  static std::unique_ptr<Cluster> join();
  /// Ends this rank. Rank 0 first tells the others to end. If a rank is lost, or messages cannot be
  /// handed over in time, all ranks are aborted.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

  void send(int to, const nlohmann::ordered_json& message);
  /// The next message that has arrived from a rank; nullopt: none.
  std::optional<nlohmann::ordered_json> take(int from);
  /// Seconds since anything, heartbeats included, arrived from a rank.
  double silent_s(int rank);
  /// Sends a heartbeat: to rank 0, or from rank 0 to all others.
  void say_alive();
  /// Receives all messages that have arrived, and sends a heartbeat when one is due.
  void pump();
  /// Makes the destructor print `line`, unless it is "", and abort all ranks, this one included:
  /// for when some of them would never end by themselves.
  void give_up(const std::string& line);
  /// The exit code of ranks that are told to end or aborted.
  void set_code(int code) { code_ = code; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::deque<std::string> messages;
    Clock::time_point heard = Clock::now();
  };
  explicit Cluster(const MpiTransport* transport);

  const MpiTransport* transport_;
  int rank_, code_ = 1;
  bool given_up_ = false;
  std::string last_words_;
  std::vector<Peer> peers_;
  Clock::time_point said_ = Clock::now(), turn_ = Clock::now();  // last heartbeat; last pump
};

/// A rank that has sent nothing for so long counts as lost.
inline constexpr double kLostS = 40;

}  // namespace wide
