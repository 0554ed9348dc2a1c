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

/// The ranks that run this program together, and what they say to each other: JSON. Of one thread.
class Cluster {
 public:
  /// Those of this process's launcher; nullptr where it is the only one. Throws Error (exit code 1)
  /// where there is no plugin for MPI, or ranks cannot find each other.
  static std::unique_ptr<Cluster> join();
  /// Of rank 0: tells the others to end. Where one does not listen, all are ended.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

  void send(int to, const nlohmann::ordered_json& message);
  /// The next message of a rank that has come; nullopt: none.
  std::optional<nlohmann::ordered_json> take(int from);
  /// Since the last message of a rank, of whatever kind.
  double silent_s(int rank);
  /// Says that this one lives: to rank 0, which says so to all.
  void say_alive();
  /// What is there to be heard is heard, and this one says that it lives, when it is time to.
  void pump();
  /// Not all will come to their ends by themselves: they are ended by this object's end, and this
  /// process too, once it has said `line`, where that is not "".
  void give_up(const std::string& line);
  /// The exit code that all ranks end with, should they have to be ended.
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
  Clock::time_point said_ = Clock::now(), turn_ = Clock::now();  // turn_: of listening
};

/// A rank that has said nothing for so long is lost.
inline constexpr double kLostS = 40;

}  // namespace wide
