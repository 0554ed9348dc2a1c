#pragma once
#include <memory>
#include <optional>
#include <string>

#include "app/worker/heartbeat.h"
#include "app/worker/protocol.h"
#include "app/worker/spawn.h"
#include "data/bytes/descriptor.h"
#include "data/machine/oom.h"

namespace wide {

/// Appends what the non-blocking `from` holds to `words`, and keeps the last 4 KB of them. Returns
/// after a megabyte, so that endless output does not block the caller. False at the end of the
/// stream.
bool read_words(const Descriptor& from, std::string* words);

/// A worker: a child process that runs this same program and gets its requests over a pipe.
class WorkerProcess {
 public:
  /// Throws Error with exit code 1 when no process can be started.
  WorkerProcess();
  /// Kills the worker and the processes that it started.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Sends one line; waits, without a limit, while the pipe is full. False if the worker is gone.
  bool send(const std::string& line);

  /// What arrived within `milliseconds`: a line, or that the worker closed its pipe, or nothing.
  struct Heard {
    std::optional<std::string> line;
    bool ended = false;
  };
  Heard hear(int milliseconds);

  struct End {
    int status = 0;          // as waitpid returns it
    bool by_itself = false;  // it ended before it was killed
    /// Ended by itself, and since it began the kernel has killed some process for lack of memory.
    bool for_memory = false;
  };
  /// Waits `patience_ms` for the worker to end by itself, then kills it.
  End kill(int patience_ms = 0);
  const Heartbeat& heart() const { return *heart_; }
  /// The last 4 KB that the worker printed to stdout and stderr.
  const std::string& words() const { return words_; }

 private:
  struct Unmap {
    void operator()(Heartbeat* page) const { munmap(page, sizeof(Heartbeat)); }
  };

  MemoryKills kills_;
  std::optional<Spawned> process_;
  End end_;
  Descriptor to_, from_, printed_;
  std::unique_ptr<Heartbeat, Unmap> heart_;
  std::string received_, words_;
};

}  // namespace wide
