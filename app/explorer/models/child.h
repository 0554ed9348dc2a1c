#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/worker/spawn.h"
#include "data/bytes/descriptor.h"

namespace wide {

/// Runs this program as a child process with another command, so that its crash does not end the
/// window. One at a time.
class Child {
 public:
  ~Child();
  /// `arguments` as on the command line, without the program's name. Throws Error with exit code 1
  /// if no process can be started.
  void start(std::vector<std::string> arguments);
  void stop();
  bool running() const;
  /// The child's output, stdout and stderr together. If it is very long, a line at its begin says
  /// how much before the rest was left out.
  std::string output() const;
  /// The last lines of it, as many as a panel shows while the child runs.
  std::string last_lines() const;
  /// The exit code of the last child that ended, or 128 plus its signal; -1 if none has ended.
  int code() const;

  /// How long the destructor waits for a child that still runs to end by itself after SIGINT,
  /// before it kills it: a training saves its state meanwhile.
  double patience_s = 0;
  std::function<void()> wake = [] {};  // called on any thread when there is new output

 private:
  void listen(const Descriptor& from);

  mutable std::mutex mutex_;
  std::thread thread_;
  std::optional<Spawned> process_;
  int code_ = -1;
  std::string output_;
  size_t left_out_ = 0;  // bytes
};

}  // namespace wide
