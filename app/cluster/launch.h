#pragma once
#include <string>

namespace wide {

/// How this process was started, as its environment says.
struct Launch {
  int size = 1;   // processes that run this program together
  int rank = 0;   // of these
  int local = 1;  // of these, on this machine
  bool mpi = false;
  int relay = -1;  // a socket to the rank of MPI that started this process (app/cluster/relay.h)
  bool bound = false;  // somebody has chosen which cores each process runs on
  std::string
      wrong;  // why several processes cannot work together: a line for the user; "": they can
};
const Launch& launch();

/// Threads for one of several processes that compute side by side: the cores that it is bound to,
/// or its share of all.
int threads_of_rank();

/// Whether a variable is the launcher's, and not for what this process starts itself.
bool is_launchers(const char* variable);

}  // namespace wide
