#pragma once
#include <cstddef>
#include <cstdint>

// How ranks send each other messages. The MPI plugin (`mpi.cpp`) implements it, as does `relay`;
// the program (`cluster`) knows nothing else of MPI. Only one thread may call it.
extern "C" {

struct MpiTransport {
  int rank, size;
  /// Copies the message, sends it to rank `to` and does not wait until it has arrived.
  void (*send)(int to, const char* text, size_t size);
  /// Size in bytes of the next message that has arrived, and its sender; -1 where none has.
  int64_t (*probe)(int* from);
  /// Receives the message that `probe` has found; `text` must hold the `size` that it returned.
  void (*take)(int from, char* text, size_t size);
  /// Whether all messages were handed over, so that `finish` loses none.
  bool (*sent)();
  void (*finish)();  // the end of this rank's part in the run
  /// Ends all ranks, with exit code `code`.
  void (*abort)(int code);
};

/// Starts MPI; nullptr where that fails, after MPI has printed its own message. The plugin exports
/// the function under the name `kJoinMpi`.
using JoinMpi = const MpiTransport* (*)();
inline constexpr const char* kJoinMpi = "workbench_join_mpi";
}
