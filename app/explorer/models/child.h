#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/worker/spawn.h"

namespace wide {

/// This same program run as a command of its own, so that nothing it does can take the window with
/// it. One at a time.
class Child {
 public:
  ~Child();
  /// `arguments` as on the command line, without the program's name. Throws Error with exit code 1
  /// where there can be no new process.
  void start(std::vector<std::string> arguments);
  void stop();
  bool running() const;
  /// The last lines it has printed, stdout and stderr together.
  std::string output() const;
  /// Of the one that ended last: its exit code, or 128 and its signal; -1 before.
  int code() const;

  std::function<void()> wake = [] {};  // on any thread: something is new

 private:
  void listen(int from);

  mutable std::mutex mutex_;
  std::thread thread_;
  std::optional<Spawned> process_;
  int code_ = -1;
  std::string output_;
};

}  // namespace wide
