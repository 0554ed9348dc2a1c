#pragma once
#include <string>
#include <vector>

#include "app/sandbox/group.h"

namespace wide {

/// A rank's number among the measuring ranks on its machine.
struct RankPlace {
  int number = 0, of = 1;  // `number` counts from 0
};

/// The cores available to this process, grouped by processor socket. `root`: a folder that stands
/// in for the system's root, for tests; "": the system itself.
std::vector<std::vector<int>> cores_by_socket(const std::string& root = "");

/// The cores that a rank measures on: all of the machine where it is alone, else those of its
/// socket; where each rank has a GPU of its own, an even share.
std::vector<int> cores_of(const RankPlace& place, const std::vector<std::vector<int>>& sockets,
                          bool own_gpu);
/// Pins this thread, and the threads and processes that it starts later, to these cores.
void bind_to(const std::vector<int>& cores);
/// Undoes the binding that mpirun chose unasked: this rank may then use all cores. Where the user
/// or srun has bound it, that stays.
void unbind();
/// How many threads this rank computes with: the number of cores that it may use, divided by the
/// number of ranks on this machine that may use the same cores. All ranks of `group` call it;
/// nullptr: this is the only rank.
int threads_of_rank(RankGroup* group);

/// The GPU that a rank measures on, as CUDA_VISIBLE_DEVICES names it: one of those in `visible`,
/// which is that variable where it is set, else of `count`.
std::string gpu_of(const RankPlace& place, const char* visible, int count);

/// How many NVIDIA GPUs these device nodes are of ("/dev/nvidia0", not "/dev/nvidiactl").
int gpus_of(const std::vector<std::string>& nodes);

/// For a rank that trains: makes `gpu_of` the only GPU that this process and those that it starts
/// see. Call it before the first use of CUDA's driver, which for that reason cannot be asked for
/// `count`. Returns a note for the user if ranks of this machine may share a GPU, or "".
std::string take_gpu(const RankPlace& place, int count);

}  // namespace wide
