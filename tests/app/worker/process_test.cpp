// What a worker prints: the last of it is kept, and one that never stops holds nobody up.
#include "app/worker/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "app/worker/host.h"
#include "engine/device.h"

namespace wide::process_test {
namespace {

TEST(WorkerWords, OfAStreamThatNeverEndsAreLeftAlone) {
  const int endless = open("/dev/zero", O_RDONLY | O_NONBLOCK);
  ASSERT_GE(endless, 0);
  std::string words;
  EXPECT_TRUE(read_words(endless, &words));
  EXPECT_GE(words.size(), 1000u);
  EXPECT_LE(words.size(), 10'000u);
  close(endless);
}

TEST(WorkerWords, AreTheLastOnes) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  std::string text(50'000, 'a');
  text += "the end";
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  std::string words;
  EXPECT_TRUE(read_words(ends[0], &words));
  EXPECT_EQ(words.substr(words.size() - 8), "athe end");
  EXPECT_TRUE(read_words(ends[0], &words)) << "nothing more, but not the end";
  close(ends[1]);
  EXPECT_FALSE(read_words(ends[0], &words));
  EXPECT_EQ(words.substr(words.size() - 8), "athe end");
  close(ends[0]);
}

TEST(WorkerPeaks, AreMeasuredInAProcessOfTheirOwn) {
  const Peaks peaks = peaks_by_worker(c10::kCPU, 1);
  EXPECT_EQ(peaks.threads, 1);
  EXPECT_GT(peaks.flops_per_s.at(at::kFloat), 0);
  EXPECT_GT(peaks.memory_bytes_per_s(), 0);
  if (!unavailable(c10::kCUDA)) GTEST_SKIP() << "there is a GPU";
  try {
    peaks_by_worker(c10::kCUDA, 1);
    FAIL() << "peaks of a GPU that is not there";
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 5);
    EXPECT_EQ(std::string(e.what()).rfind("[cuda] peaks: got ", 0), 0u) << e.what();
  }
}

}  // namespace
}  // namespace wide::process_test
