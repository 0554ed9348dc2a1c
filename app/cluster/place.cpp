#include "app/cluster/place.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "app/cluster/launch.h"
#include "data/machine/environment.h"
#include "data/machine/load.h"
#include "data/text.h"

namespace wide {
namespace {

std::vector<int> all_of(const std::vector<std::vector<int>>& sockets) {
  std::vector<int> all;
  for (const std::vector<int>& cores : sockets) all.insert(all.end(), cores.begin(), cores.end());
  return all;
}

/// The cores that this thread could be bound to: the kernel ignores those that it may not use.
std::vector<int> widest() {
  cpu_set_t now, every;
  if (sched_getaffinity(0, sizeof now, &now)) return {0};
  std::memset(&every, 0xFF, sizeof every);
  std::vector<int> cores = bound_cores();
  if (sched_setaffinity(0, sizeof every, &every) == 0) cores = bound_cores();
  sched_setaffinity(0, sizeof now, &now);
  return cores;
}

}  // namespace

std::vector<std::vector<int>> cores_by_socket(const std::string& root) {
  std::map<int, std::vector<int>> sockets;
  for (const int core : widest()) {
    int socket = 0;
    std::ifstream(root + "/sys/devices/system/cpu/cpu" + std::to_string(core) +
                  "/topology/physical_package_id") >>
        socket;
    sockets[socket].push_back(core);
  }
  std::vector<std::vector<int>> found;
  for (auto& [number, cores] : sockets) found.push_back(std::move(cores));
  return found;
}

std::vector<int> cores_of(const RankPlace& place, const std::vector<std::vector<int>>& sockets,
                          bool own_gpu) {
  const std::vector<int> all = all_of(sockets);
  if (place.of <= 1) return all;
  const auto number = static_cast<size_t>(place.number), of = static_cast<size_t>(place.of);
  if (of <= sockets.size() || !own_gpu || all.size() < of) return sockets[number % sockets.size()];
  const auto at = [&](size_t share) {
    return all.begin() + static_cast<ptrdiff_t>(all.size() * share / of);
  };
  return {at(number), at(number + 1)};
}

void bind_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

int gpus_of(const std::vector<std::string>& nodes) {
  int count = 0;
  for (const std::string& node : nodes) {
    const std::string name = node.substr(node.rfind('/') + 1);
    count += name.starts_with("nvidia") && whole_number(name.substr(6)) ? 1 : 0;
  }
  return count;
}

std::string take_gpu(const RankPlace& place, int count) {
  const char* variable = "CUDA_VISIBLE_DEVICES";
  const char* set = std::getenv(variable);
  const std::string visible = set ? set : "";
  const std::string gpu = gpu_of(place, set, count);
  if (!gpu.empty()) setenv(variable, gpu.c_str(), /*overwrite=*/1);
  const auto gpus = set ? static_cast<int>(split(visible).size()) : count;
  if (place.of <= gpus) return "";
  if (set)
    return fmt::format(
        "{} ranks of a machine see {} by {}={}: those that see the same one share it", place.of,
        gpus == 1 ? "one GPU" : fmt::format("{} GPUs", gpus), variable, printable(visible));
  if (gpus == 0)
    return fmt::format(
        "{} ranks of a machine take its first GPU, as no device nodes say how many there are; try "
        "{}=0,1",
        place.of, variable);
  return fmt::format("{} ranks of a machine share {}", place.of,
                     gpus == 1 ? "one GPU" : fmt::format("{} GPUs", gpus));
}

void unbind() {
  if (launch().mpi && !launch().bound) bind_to(widest());
}

int threads_of_rank(RankGroup* group) {
  if (!group) return usable_cores();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const nlohmann::ordered_json own = {{"host", host}, {"cores", bound_cores()}};
  const auto sharing = std::ranges::count(group->all_gather(own), own);
  return std::max(1, usable_cores() / static_cast<int>(sharing));
}

std::string gpu_of(const RankPlace& place, const char* visible, int count) {
  std::vector<std::string> names;
  if (visible) names = split(visible);
  if (!visible)
    for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  if (names.empty()) return "";
  return names[static_cast<size_t>(place.number) % names.size()];
}

}  // namespace wide
