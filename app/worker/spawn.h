#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace wide {

/// This program, started again as a command of its own: in a process group of its own, and killed
/// by the system when the thread that started it ends, whatever ends that.
class Spawned {
 public:
  /// `arguments` as on the command line, without the program's name. `descriptors`: ours, and the
  /// number it has there; besides those and the standard three, none is open there. Throws Error
  /// with exit code 1, beginning with `who` ("worker"), where there can be no new process.
  Spawned(const std::string& who, std::vector<std::string> arguments,
          const std::vector<std::pair<int, int>>& descriptors);
  /// Ends it.
  ~Spawned();
  Spawned(const Spawned&) = delete;
  Spawned& operator=(const Spawned&) = delete;

  /// Whether it has ended, by itself or not.
  bool ended() const;
  /// Returns when it has ended.
  void await() const;
  /// Ends it, and whatever it has started; from any thread, until `reap` is called.
  void kill() const;
  /// Ends what it has left behind, and takes its status, as waitpid says: once, and of this process
  /// alone. Before it has ended this ends it.
  int reap();

 private:
  pid_t pid_ = -1;
};

/// Throws as Spawned does, of the error that `errno` holds.
[[noreturn]] void cannot_spawn(const std::string& who);

}  // namespace wide
