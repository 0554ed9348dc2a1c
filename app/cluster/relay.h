#pragma once
#include "app/cluster/transport.h"

namespace wide {

/// What reaches the other ranks by way of the process that started this one, which is a rank of MPI
/// itself: a rank can begin MPI but once, and may run this program several times. Each message on
/// the socket has a header: whose it is or who gets it (int32, -1: end all ranks), and its bytes
/// (int64).
const MpiTransport* relay_transport(int socket, int rank, int size);

}  // namespace wide
