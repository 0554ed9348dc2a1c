// Files that appear whole or not at all, whoever else writes there.
#include "data/bytes/part_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "engine/error.h"
#include "tests/scratch.h"

namespace wide::part_file_test {
namespace {

namespace fs = std::filesystem;

class PartFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string content(const std::string& name) const { return read_text(path(name)); }
  size_t files() const { return folder_.names().size(); }
  static void write(const std::string& to, const std::string& text) {
    PartFile file(to);
    file.write(text.data(), text.size());
    file.commit();
  }

  Scratch folder_;
};

TEST_F(PartFiles, AppearWhole) {
  {
    PartFile file(path("a"));
    file.write("half", 4);
    EXPECT_FALSE(fs::exists(path("a")));
  }
  EXPECT_EQ(files(), 0u);
  write(path("a"), "first");
  write(path("a"), "second");
  EXPECT_EQ(content("a"), "second");
  EXPECT_EQ(files(), 1u);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat status {};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0666u & ~mask);
}

TEST_F(PartFiles, FollowNoLink) {
  std::ofstream(path("victim")) << "mine";
  fs::create_symlink(path("victim"), path("a"));
  fs::create_symlink(path("victim"), path("a.part"));
  write(path("a"), "theirs");
  EXPECT_EQ(content("victim"), "mine");
  EXPECT_EQ(content("a"), "theirs");
  EXPECT_FALSE(fs::is_symlink(path("a")));
  fs::create_symlink("/dev/null", path("b"));  // nor to a device
  write(path("b"), "kept");
  EXPECT_EQ(content("b"), "kept");
}

TEST_F(PartFiles, TwoWritersShareNothing) {
  constexpr size_t kSize = 1 << 20;
  std::vector<std::thread> writers;
  for (const char letter : {'x', 'y', 'z'})
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) write(path("a"), std::string(kSize, letter));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string text = content("a");
  ASSERT_EQ(text.size(), kSize);
  EXPECT_EQ(text, std::string(kSize, text.front()));
  EXPECT_EQ(files(), 1u);
}

TEST_F(PartFiles, PipesAndDevicesAreWrittenDirectly) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = content("pipe"); });
  write(path("pipe"), "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  write("/dev/null", "nowhere");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(PartFiles, AFailureLeavesWhatWasThere) {
  write(path("a"), "old");
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit small{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &small);
    std::signal(SIGXFSZ, SIG_IGN);
    try {
      write(path("a"), std::string(100'000, 'x'));
      _exit(1);
    } catch (const Error& e) {
      _exit(e.exit_code() == 1 && std::string(e.what()).find("File too large") != std::string::npos
                ? 0
                : 2);
    }
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content("a"), "old");
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace wide::part_file_test
