#include "engine/machine/caches.h"

#include <sched.h>

#include <fstream>
#include <map>
#include <mutex>

namespace wide {
namespace {

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "32768K" in bytes; 0 for other text.
int64_t bytes_of(const std::string& text) {
  char* end = nullptr;
  const int64_t number = std::strtoll(text.c_str(), &end, 10);
  return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

}  // namespace

int64_t cache_bytes(int level, int processors, int64_t unknown, const std::string& folder) {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof(own), &own) != 0) return unknown;
  std::map<std::string, int64_t> found;  // by the list of processors that share it
  for (int cpu = 0; cpu < CPU_SETSIZE && processors > 0; ++cpu) {
    if (!CPU_ISSET(cpu, &own)) continue;
    --processors;
    for (int index = 0;; ++index) {
      const std::string cache =
          folder + "/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
      const std::string of = line_of(cache + "/level");
      if (of.empty()) break;
      if (of == std::to_string(level) && line_of(cache + "/type") != "Instruction")
        found[line_of(cache + "/shared_cpu_list")] = bytes_of(line_of(cache + "/size"));
    }
  }
  int64_t sum = 0;
  for (const auto& [shared, bytes] : found) sum += bytes;
  return sum > 0 ? sum : unknown;
}

int64_t last_cache_bytes(int processors) {
  static std::mutex mutex;
  static std::map<int, int64_t> known;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(processors, 0);
  if (fresh) at->second = cache_bytes(3, processors, int64_t{32} << 20);
  return at->second;
}

}  // namespace wide
