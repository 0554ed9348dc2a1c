// What a worker prints: the last of it is kept, and one that never stops holds nobody up.
#include "app/worker/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>
#include <string>

#include "app/worker/host.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide::process_test {
namespace {

TEST(WorkerWords, OfAStreamThatNeverEndsAreLeftAlone) {
  const Descriptor endless(open("/dev/zero", O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(endless.open());
  std::string words;
  EXPECT_TRUE(read_words(endless, &words));
  EXPECT_GE(words.size(), 1000u);
  EXPECT_LE(words.size(), 10'000u);
}

TEST(WorkerWords, AreTheLastOnes) {
  std::optional<Pipe> pipe = make_pipe();
  ASSERT_TRUE(pipe);
  fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  std::string text(50'000, 'a');
  text += "the end";
  ASSERT_EQ(write(pipe->write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  std::string words;
  EXPECT_TRUE(read_words(pipe->read, &words));
  EXPECT_EQ(words.substr(words.size() - 8), "athe end");
  EXPECT_TRUE(read_words(pipe->read, &words)) << "nothing more, but not the end";
  pipe->write.close();
  EXPECT_FALSE(read_words(pipe->read, &words));
  EXPECT_EQ(words.substr(words.size() - 8), "athe end");
}

std::set<int> open_descriptors() {
  std::set<int> found;
  for (int fd = 0; fd < 4096; ++fd)
    if (fcntl(fd, F_GETFD) >= 0) found.insert(fd);
  return found;
}

TEST(Worker, ThatCannotStartLeavesNothingOpen) {
  const std::set<int> before = open_descriptors();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  for (int more = 0; more < 7; ++more) {  // it opens 7
    rlim_t last = 0;                      // so many are free below it
    for (int free = 0; free < more || before.count(static_cast<int>(last)); ++last)
      free += !before.count(static_cast<int>(last));
    const rlimit low{last, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    EXPECT_THROW(WorkerProcess(), Error) << more;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(open_descriptors(), before) << more;
  }
}

TEST(WorkerPeaks, AreMeasuredInAProcessOfTheirOwn) {
  const Peaks peaks = peaks_by_worker(c10::kCPU, 1, false);
  EXPECT_EQ(peaks.threads, 1);
  EXPECT_GT(peaks.flops_per_s.at(at::kFloat), 0);
  EXPECT_GT(peaks.memory_bytes_per_s(), 0);
  if (!unavailable(c10::kCUDA)) GTEST_SKIP() << "there is a GPU";
  try {
    peaks_by_worker(c10::kCUDA, 1, false);
    FAIL() << "peaks of a GPU that is not there";
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 5);
    EXPECT_EQ(std::string(e.what()).rfind("[cuda] peaks: got ", 0), 0u) << e.what();
  }
}

}  // namespace
}  // namespace wide::process_test
