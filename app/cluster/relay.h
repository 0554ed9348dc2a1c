#pragma once
#include "app/cluster/transport.h"

namespace wide {

/// A transport without MPI, for a program started by a Python script under mpirun (`nw.train`). The
/// script's process is the MPI rank, since a process can start MPI only once and a script may train
/// several times; it forwards messages between its socket and the other ranks
/// (`app/python/nwide/training/ranks.py`). Each message has a header: the sender's or receiver's
/// rank (int32; -1: end all ranks) and the number of bytes that follow (int64).
const MpiTransport* relay_transport(int socket, int rank, int size);

}  // namespace wide
