#pragma once
#include <string>

namespace wide {

/// How this process was started, read from the launcher's environment variables.
struct Launch {
  int size = 1;   // processes that run this program together
  int rank = 0;   // its number among them, from 0
  int local = 1;  // how many of them run on this machine
  bool mpi = false;
  int relay = -1;  // a socket to the rank of MPI that started this process (app/cluster/relay.h)
  bool bound = false;  // the user or launcher has chosen the cores of each process
  std::string
      wrong;  // why several processes cannot work together: a line for the user; "": they can
};
const Launch& launch();

/// Threads for one of several processes that compute side by side: the cores that it is bound to,
/// or its share of all.
int threads_of_rank();

/// Whether an environment variable comes from the launcher; child processes must not inherit it.
bool is_launchers(const char* variable);

}  // namespace wide
