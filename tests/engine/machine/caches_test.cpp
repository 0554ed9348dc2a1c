#include "engine/machine/caches.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "tests/scratch.h"

namespace wide::caches_test {
namespace {

namespace fs = std::filesystem;

/// The processors this program may run on.
std::vector<int> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

class CachesTest : public ::testing::Test {
 protected:
  void add(int cpu, int index, const std::string& level, const std::string& type,
           const std::string& size, const std::string& shared) {
    const fs::path at = folder_.path() / ("cpu" + std::to_string(cpu)) / "cache" /
                        ("index" + std::to_string(index));
    fs::create_directories(at);
    for (const auto& [file, text] :
         {std::pair("level", level), {"type", type}, {"size", size}, {"shared_cpu_list", shared}})
      std::ofstream(at / file) << text << "\n";
  }
  Scratch folder_;
};

TEST_F(CachesTest, EachCountsOnceHoweverManyShareIt) {
  const std::vector<int> cpus = own_processors();
  for (size_t i = 0; i < cpus.size(); ++i) {
    const std::string own = std::to_string(cpus[i]);
    add(cpus[i], 0, "1", "Data", "48K", own);
    add(cpus[i], 1, "1", "Instruction", "32K", own);
    add(cpus[i], 2, "2", "Unified", "1024K", own);
    add(cpus[i], 3, "3", "Unified", "32M", i == 0 ? "first" : "others");
  }
  const auto count = static_cast<int64_t>(cpus.size());
  EXPECT_EQ(cache_bytes(1, 1, 7, folder_.path()), 48 << 10);
  EXPECT_EQ(cache_bytes(2, 1000, 7, folder_.path()), count << 20);
  EXPECT_EQ(cache_bytes(3, 1, 7, folder_.path()), 32 << 20);
  EXPECT_EQ(cache_bytes(3, 1000, 7, folder_.path()), std::min<int64_t>(count, 2) * (32 << 20));
}

TEST_F(CachesTest, WhatIsNotThereIsUnknown) {
  EXPECT_EQ(cache_bytes(3, 2, 7, folder_.path()), 7);
  for (const int cpu : own_processors()) add(cpu, 0, "1", "Data", "48K", "0");
  EXPECT_EQ(cache_bytes(3, 2, 7, folder_.path()), 7);
  EXPECT_EQ(cache_bytes(3, 2, 7, folder_ / "none"), 7);
}

}  // namespace
}  // namespace wide::caches_test
