// Whether the system has ended processes as memory was short, and what it leaves, read from planted
// files.
#include "data/machine/oom.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace wide::oom_test {
namespace {

namespace fs = std::filesystem;

class MemoryKillsOf : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "oom-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(root_); }
  void plant(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(MemoryKillsOf, NothingIsKnownWithoutFiles) { EXPECT_EQ(memory_kills(root_), std::nullopt); }

TEST_F(MemoryKillsOf, TheMachinesCount) {
  plant("/proc/vmstat", "nr_free_pages 17\noom_kill 4\nnr_zspages 0\n");
  EXPECT_EQ(memory_kills(root_), 4);
}

TEST_F(MemoryKillsOf, TheGroupsCount) {
  plant("/proc/self/cgroup", "0::/user.slice/job 7\n");
  plant("/sys/fs/cgroup/user.slice/job 7/memory.events", "low 0\nhigh 9\noom 8\noom_kill 3\n");
  EXPECT_EQ(memory_kills(root_), 3);
  plant("/proc/vmstat", "oom_kill 2\n");
  EXPECT_EQ(memory_kills(root_), 5);
}

TEST_F(MemoryKillsOf, TheCountOfOldGroupsAlsoSeenFromInside) {
  plant("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/a\n3:cpu:/x\n0::/\n");
  plant("/sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
  EXPECT_EQ(memory_kills(root_), 6);
  plant("/sys/fs/cgroup/memory/box/a/memory.oom_control", "oom_kill 1\n");
  EXPECT_EQ(memory_kills(root_), 7);
}

TEST_F(MemoryKillsOf, WhatIsLeftIsUnknownWithoutLimits) {
  EXPECT_EQ(memory_left_in_groups(root_), std::nullopt);
  plant("/proc/self/cgroup", "0::/a\n");
  plant("/sys/fs/cgroup/a/memory.max", "max\n");
  plant("/sys/fs/cgroup/a/memory.current", "100\n");
  EXPECT_EQ(memory_left_in_groups(root_), std::nullopt);
}

TEST_F(MemoryKillsOf, TheNearestLimitOfTheGroupsAround) {
  plant("/proc/self/cgroup", "0::/user.slice/job 7\n");
  const std::string outer = "/sys/fs/cgroup/user.slice/", own = outer + "job 7/";
  plant(own + "memory.max", "1000\n");
  plant(own + "memory.current", "300\n");
  EXPECT_EQ(memory_left_in_groups(root_), 700);
  plant(own + "memory.stat", "anon 1\ninactive_file 50\n");
  EXPECT_EQ(memory_left_in_groups(root_), 750);
  plant(outer + "memory.max", "2000\n");
  plant(outer + "memory.current", "1900\n");
  EXPECT_EQ(memory_left_in_groups(root_), 100);
  plant("/sys/fs/cgroup/memory.max", "5000\n");  // in a container the group is the top one
  plant("/sys/fs/cgroup/memory.current", "4990\n");
  EXPECT_EQ(memory_left_in_groups(root_), 10);
  plant(outer + "memory.current", "2100\n");
  EXPECT_EQ(memory_left_in_groups(root_), 0);
}

TEST_F(MemoryKillsOf, TheNearestLimitOfOldGroups) {
  plant("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/a\n3:cpu:/x\n0::/\n");
  plant("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  plant("/sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
  EXPECT_EQ(memory_left_in_groups(root_), 9223372036854771635);
  plant("/sys/fs/cgroup/memory/box/a/memory.limit_in_bytes", "900\n");
  plant("/sys/fs/cgroup/memory/box/a/memory.usage_in_bytes", "400\n");
  plant("/sys/fs/cgroup/memory/box/a/memory.stat", "inactive_file 1\ntotal_inactive_file 20\n");
  EXPECT_EQ(memory_left_in_groups(root_), 520);
}

TEST(MemoryKills, NoneWithoutOne) { EXPECT_FALSE(MemoryKills().any()); }

}  // namespace
}  // namespace wide::oom_test
