#include "data/machine/oom.h"

#include <algorithm>
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

/// The number that a file consists of; nullopt for "max" and where there is no file.
std::optional<int64_t> whole_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The control group that bounds this process's memory: `top` + `path` is its folder.
struct MemoryGroup {
  std::string top, path;  // `path` is "" or begins with /
  bool first_version = false;
};

std::vector<MemoryGroup> memory_groups(const std::string& root) {
  std::vector<MemoryGroup> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (kind.empty()) found.push_back({root + "/sys/fs/cgroup", path, false});
    if (kind == "memory") found.push_back({root + "/sys/fs/cgroup/memory", path, true});
  }
  return found;
}

/// The control groups' files with counts of kills.
std::vector<std::string> files_of_kills(const std::string& root) {
  std::vector<std::string> files;
  for (const MemoryGroup& group : memory_groups(root)) {
    const std::string file = group.first_version ? "/memory.oom_control" : "/memory.events";
    files.push_back(group.top + group.path + file);
    if (group.first_version && !group.path.empty())  // in a container the group is the top one
      files.push_back(group.top + file);
  }
  return files;
}

/// What a control group leaves below its limit. Pages of files that were not read for a while are
/// free: the kernel drops them before it kills.
std::optional<int64_t> left_in_group(const std::string& folder, bool first_version) {
  const auto limit = whole_in(folder + (first_version ? "/memory.limit_in_bytes" : "/memory.max"));
  const auto used =
      whole_in(folder + (first_version ? "/memory.usage_in_bytes" : "/memory.current"));
  if (!limit || !used) return std::nullopt;
  const auto idle =
      count_in(folder + "/memory.stat", first_version ? "total_inactive_file" : "inactive_file");
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - idle.value_or(0)));
}

}  // namespace

std::optional<int64_t> memory_kills(const std::string& root) {
  std::optional<int64_t> sum = count_in(root + "/proc/vmstat", "oom_kill");
  for (const std::string& file : files_of_kills(root))
    if (const auto count = count_in(file, "oom_kill")) sum = sum.value_or(0) + *count;
  return sum;
}

std::optional<int64_t> memory_left_in_groups(const std::string& root) {
  std::optional<int64_t> least;
  for (const MemoryGroup& group : memory_groups(root))
    for (std::string path = group.path;; path.erase(path.rfind('/'))) {
      if (const auto left = left_in_group(group.top + path, group.first_version))
        least = std::min(least.value_or(*left), *left);
      if (path.empty()) break;
    }
  return least;
}

}  // namespace wide
