#pragma once
#include <cstddef>
#include <cstdint>

// What the MPI plugin offers to the program, which knows nothing else of MPI. One thread calls it.
extern "C" {

struct MpiTransport {
  int rank, size;
  /// Takes a copy; returns at once.
  void (*send)(int to, const char* text, size_t size);
  /// Bytes of a message that has come, and whose it is; -1: none.
  int64_t (*probe)(int* from);
  /// Takes the message that `probe` has found.
  void (*take)(int from, char* text, size_t size);
  /// True once all that was sent is on its way for good.
  bool (*sent)();
  void (*finish)();
  /// Ends all ranks.
  void (*abort)(int code);
};

/// Joins the others; nullptr where that fails, as MPI's own words have said.
using JoinMpi = const MpiTransport* (*)();
inline constexpr const char* kJoinMpi = "workbench_join_mpi";
}
