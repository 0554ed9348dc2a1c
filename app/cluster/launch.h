#pragma once
#include <string>

namespace wide {

/// How this process was started.
struct Launch {
  int size = 1;        // processes that run this program together
  int rank = 0;        // its number among them, from 0
  int local = 1;       // how many of them run on this machine
  int place = 0;       // its number among those, from 0
  bool mpi = false;    // a rank of MPI: started by mpirun, srun or nw.train
  int relay = -1;      // socket to the Python process that is the MPI rank (relay.h); -1: none
  bool bound = false;  // the user or launcher has chosen the cores of each process
  /// Why the processes cannot work together, as a line for the user; "": they can. A command that
  /// would run over several processes throws it as an Error.
  std::string refusal;
};
/// Reads the environment variables of the launcher (mpirun, srun) at the first call.
const Launch& launch();

/// Whether an environment variable was set by the launcher. A child process must not inherit it:
/// the child would take itself for a rank.
bool set_by_launcher(const char* variable);

}  // namespace wide
