// What a rank that measures is bound to, on machines that are not there.
#include "app/cluster/place.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "data/machine/load.h"
#include "tests/scratch.h"

namespace wide::place_test {
namespace {

using Cores = std::vector<int>;

TEST(RankPlace, CoresAreTheMachinesTheSocketsOrAShareBesideAGpu) {
  const std::vector<Cores> two{{0, 1, 2, 6}, {3, 4, 5, 7}}, one{{0, 1, 2}};
  EXPECT_EQ(cores_of({0, 1}, two, false), (Cores{0, 1, 2, 6, 3, 4, 5, 7}));
  EXPECT_EQ(cores_of({0, 2}, two, false), two[0]);
  EXPECT_EQ(cores_of({1, 2}, two, true), two[1]);
  // More than sockets: two share one, which is refused unless it is allowed.
  EXPECT_EQ(cores_of({2, 3}, two, false), two[0]);
  EXPECT_EQ(cores_of({1, 2}, one, false), one[0]);
  // Each has a GPU: they share no core.
  Cores all;
  for (int k = 0; k < 3; ++k)
    for (const int core : cores_of({k, 3}, two, true)) all.push_back(core);
  EXPECT_EQ(all, (Cores{0, 1, 2, 6, 3, 4, 5, 7}));
  EXPECT_EQ(cores_of({1, 3}, two, true), (Cores{2, 6, 3}));
  EXPECT_EQ(cores_of({3, 4}, one, true), one[0]) << "fewer cores than ranks";
}

TEST(RankPlace, GpusAreTakenInTurnOfThoseThatAreSeen) {
  const auto taken = [](const char* visible, int count) {
    std::vector<std::string> names;
    for (int k = 0; k < 4; ++k) names.push_back(gpu_of({k, 4}, visible, count));
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(taken(nullptr, 4), (Names{"0", "1", "2", "3"}));
  EXPECT_EQ(taken(nullptr, 3), (Names{"0", "1", "2", "0"}));
  EXPECT_EQ(taken("2,5", 2), (Names{"2", "5", "2", "5"}));
  EXPECT_EQ(taken("GPU-8a,MIG-3", 2), (Names{"GPU-8a", "MIG-3", "GPU-8a", "MIG-3"}));
  EXPECT_EQ(taken(nullptr, 0), (Names{"", "", "", ""}));
  EXPECT_EQ(taken("", 0), (Names{"", "", "", ""}));
}

/// Ranks that train: before the driver starts, so that each sees its GPU alone as the first one.
TEST(RankPlace, RanksThatTrainTakeOneGpuEach) {
  const char* variable = "CUDA_VISIBLE_DEVICES";
  const char* set = std::getenv(variable);
  const std::optional<std::string> before = set ? std::optional<std::string>(set) : std::nullopt;
  const auto taken = [&](const char* visible, int ranks, int count) {
    std::vector<std::string> all;
    for (int k = 0; k < ranks; ++k) {
      visible ? setenv(variable, visible, 1) : unsetenv(variable);
      const std::string note = take_gpu({k, ranks}, count);
      const char* now = std::getenv(variable);
      all.push_back((now ? now : "none") + (note.empty() ? "" : ": " + note));
    }
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(taken(nullptr, 3, 3), (Names{"0", "1", "2"}));
  EXPECT_EQ(taken(nullptr, 2, 3), (Names{"0", "1"}));
  EXPECT_EQ(taken("2,5", 2, 8), (Names{"2", "5"}));
  const std::string two = ": 3 ranks of a machine share 2 GPUs";
  EXPECT_EQ(taken(nullptr, 3, 2), (Names{"0" + two, "1" + two, "0" + two}));
  EXPECT_EQ(taken("GPU-8a", 2, 8)[1],
            "GPU-8a: 2 ranks of a machine see one GPU by CUDA_VISIBLE_DEVICES=GPU-8a: those that "
            "see the same one share it");
  EXPECT_EQ(taken(nullptr, 2, 0)[1],
            "none: 2 ranks of a machine take its first GPU, as no device nodes say how many there "
            "are; try CUDA_VISIBLE_DEVICES=0,1");
  before ? setenv(variable, before->c_str(), 1) : unsetenv(variable);
}

TEST(RankPlace, GpusAreCountedByTheirDeviceNodes) {
  EXPECT_EQ(gpus_of({"/dev/nvidia0", "/dev/nvidia11", "/dev/nvidiactl", "/dev/nvidia-uvm",
                     "/dev/nvidia-caps", "/dev/dxg"}),
            2);
  EXPECT_EQ(gpus_of({}), 0);
}

TEST(RankPlace, SocketsAreThoseOfTheSystemsFiles) {
  const Scratch root;
  const Cores before = bound_cores();
  ASSERT_FALSE(before.empty());
  const auto sockets = cores_by_socket(root / "");
  ASSERT_EQ(sockets.size(), 1u) << "nothing is said: one";
  const Cores all = sockets[0];
  EXPECT_EQ(bound_cores(), before) << "asking binds nobody";
  for (const int core : all) {
    const std::string folder = root / fmt::format("sys/devices/system/cpu/cpu{}/topology", core);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/physical_package_id") << (core == all.back() ? 3 : 1);
  }
  EXPECT_EQ(cores_by_socket(root / "").back(), Cores{all.back()});
  EXPECT_EQ(cores_by_socket(root / "").size(), all.size() > 1 ? 2u : 1u);
  // Bound to one it still knows of all, and can be bound to them again.
  bind_to({all.back()});
  EXPECT_EQ(bound_cores(), Cores{all.back()});
  EXPECT_EQ(cores_by_socket(root / "").front().front(), all.front());
  bind_to(before);
  EXPECT_EQ(bound_cores(), before);
}

}  // namespace
}  // namespace wide::place_test
