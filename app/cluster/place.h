#pragma once
#include <string>
#include <vector>

namespace wide {

/// Which of the ranks that measure on one machine a rank is.
struct RankPlace {
  int number = 0, of = 1;  // the former from 0
};

/// All cores that this process could be given, by processor socket. `root`: where the system
/// describes them; "" is the system itself.
std::vector<std::vector<int>> cores_by_socket(const std::string& root = "");

/// The cores that a rank measures on: all of the machine where it is alone, else those of its
/// socket; where each rank has a GPU of its own, an even share.
std::vector<int> cores_of(const RankPlace& place, const std::vector<std::vector<int>>& sockets,
                          bool own_gpu);
/// From now on this thread, and what it starts, runs on these alone.
void bind_to(const std::vector<int>& cores);
/// The cores that this thread may run on.
std::vector<int> bound_cores();

/// The GPU that a rank measures on, as CUDA_VISIBLE_DEVICES names it: one of those in `visible`,
/// which is that variable where it is set, else of `count`.
std::string gpu_of(const RankPlace& place, const char* visible, int count);

}  // namespace wide
