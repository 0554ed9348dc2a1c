#pragma once
#include <optional>
#include <string>

#include "app/worker/heartbeat.h"
#include "app/worker/protocol.h"
#include "app/worker/spawn.h"
#include "data/machine/oom.h"

namespace wide {

/// Reads what `fd`, which does not block, has by now, and keeps its last few KB in `words`; of one
/// that never stops only a megabyte, so that its reader comes to other things. False at the end.
bool read_words(int fd, std::string* words);

/// A worker: this same program told what to do over a pipe.
class WorkerProcess {
 public:
  /// Throws Error with exit code 1 when no process can be started.
  WorkerProcess();
  /// Ends the worker and what it started.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// False when the worker is gone.
  bool send(const std::string& line);

  /// What came within `milliseconds`: a line, the end of the worker, or neither.
  struct Heard {
    std::optional<std::string> line;
    bool ended = false;
  };
  Heard hear(int milliseconds);

  struct End {
    int status = 0;           // as waitpid says
    bool by_itself = false;   // before it was killed
    bool for_memory = false;  // the system ended a process, as memory was short
  };
  /// Ends it, giving it a moment to end by itself.
  End kill(int patience_ms = 0);
  const Heartbeat& heart() const { return *heart_; }
  /// The end of what it printed.
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
