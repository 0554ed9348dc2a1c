#include "data/machine/oom.h"

#include <fstream>
#include <sstream>
#include <vector>

namespace wide {
namespace {

/// The number after `key` in a file of lines "key number".
std::optional<int64_t> count_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> word >> number && word == key) return number;
  }
  return std::nullopt;
}

/// The control groups' files with counts of kills, for cgroup v1 and v2.
std::vector<std::string> group_files(const std::string& root) {
  std::vector<std::string> files;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (kind.empty()) files.push_back(root + "/sys/fs/cgroup" + path + "/memory.events");
    if (kind == "memory")
      for (const std::string& seen : {path, std::string()})  // in a container the group is the root
        files.push_back(root + "/sys/fs/cgroup/memory" + seen + "/memory.oom_control");
  }
  return files;
}

}  // namespace

std::optional<int64_t> memory_kills(const std::string& root) {
  std::optional<int64_t> sum = count_in(root + "/proc/vmstat", "oom_kill");
  for (const std::string& file : group_files(root))
    if (const auto count = count_in(file, "oom_kill")) sum = sum.value_or(0) + *count;
  return sum;
}

}  // namespace wide
