#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace wide {

/// A child process that runs this program with another command: a sweep's worker, a fusion of the
/// explorer, a stage of the GPU report. It has its own process group. When the thread that started
/// it ends, for whatever reason, the kernel kills it.
class Spawned {
 public:
  /// `arguments` as on the command line, without the program's name. `descriptors`: pairs of a file
  /// descriptor here and its number in the child; besides those and the standard three, none is
  /// open there. Throws Error with exit code 1, beginning with `who` ("worker"), where no process
  /// can be started.
  Spawned(const std::string& who, std::vector<std::string> arguments,
          const std::vector<std::pair<int, int>>& descriptors);
  /// Kills and reaps the child.
  ~Spawned();
  Spawned(const Spawned&) = delete;
  Spawned& operator=(const Spawned&) = delete;

  /// Whether the child has ended, by itself or killed.
  bool ended() const;
  /// Waits until the child has ended.
  void await() const;
  /// Sends SIGINT to the child's process group, as Ctrl+C does. As `kill`.
  void interrupt() const;
  /// Kills the child's process group. May be called from any thread, until `reap` is called.
  void kill() const;
  /// Kills what is left of the process group, the child too if it still runs, and returns the
  /// child's status as waitpid has it. To be called once.
  int reap();

 private:
  pid_t pid_ = -1;
};

/// Throws the Error that Spawned's constructor throws, with the reason that `errno` holds.
[[noreturn]] void cannot_spawn(const std::string& who);

}  // namespace wide
