#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// Processes that do one work together, each in a sandbox of its own. The process outside talks to
// the others; what they say to each other is messages, of which it knows nothing.
namespace wide {

/// The others, as a process in its sandbox sees them.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Says `word`, and returns what each has said, by rank, once all have: a meeting. All of them
  /// meet equally often.
  virtual std::vector<nlohmann::ordered_json> meet(const nlohmann::ordered_json& word) = 0;
  /// The line that the work ends with, which the others cannot know.
  virtual void complain(const std::string& line) = 0;
};

/// Of this process; nullptr: it works alone.
RankGroup* rank_group();
void set_rank_group(std::unique_ptr<RankGroup> group);

/// The others, as the process outside sees them.
class Meetings {
 public:
  virtual ~Meetings() = default;
  /// What the sandbox says at the next meeting.
  virtual void say(const nlohmann::ordered_json& word) = 0;
  /// What all have said, as an array, once they have. Called often, as the others listen for signs
  /// of life. Throws Error where one of them is lost or has ended too early.
  virtual std::optional<nlohmann::ordered_json> heard() = 0;
  /// Whether something was said that is not answered yet.
  virtual bool waiting() const = 0;
  /// The sandbox has ended with `code` and, where there is one, a line for the user: waits until
  /// all have ended, and returns what this process ends with.
  virtual int end(int code, const std::string& line) = 0;
};
using MakeMeetings = std::function<std::unique_ptr<Meetings>()>;

}  // namespace wide
