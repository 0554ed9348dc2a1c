#pragma once
#include <optional>
#include <string>

#include "app/worker/heartbeat.h"
#include "app/worker/protocol.h"
#include "app/worker/spawn.h"
#include "data/machine/oom.h"

namespace wide {

/// Reads what the non-blocking `fd` holds, and keeps its last few KB in `words`. Returns after a
/// megabyte, so that endless output does not block the caller. False at the end of the stream.
bool read_words(int fd, std::string* words);

/// A worker: a child process that runs this same program and gets its requests over a pipe.
class WorkerProcess {
 public:
  /// Throws Error with exit code 1 when no process can be started.
  WorkerProcess();
  /// Kills the worker and the processes that it started.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Sends one line. False if the worker is gone.
  bool send(const std::string& line);

  /// What arrived within `milliseconds`: a line, the end of the worker, or neither.
  struct Heard {
    std::optional<std::string> line;
    bool ended = false;
  };
  Heard hear(int milliseconds);

  struct End {
    int status = 0;           // as waitpid returns it
    bool by_itself = false;   // it ended before it was killed
    bool for_memory = false;  // the kernel killed a process because memory was short
  };
  /// Waits `patience_ms` for the worker to end by itself, then kills it.
  End kill(int patience_ms = 0);
  const Heartbeat& heart() const { return *heart_; }
  /// The end of the worker's output.
  const std::string& words() const { return words_; }

 private:
  void close_all();

  MemoryKills kills_;
  std::optional<Spawned> process_;
  End end_;
  int to_ = -1, from_ = -1, printed_ = -1;
  Heartbeat* heart_ = nullptr;
  std::string received_, words_;
};

}  // namespace wide
