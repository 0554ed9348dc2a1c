#include "data/machine/ending.h"

#include <gtest/gtest.h>

#include <csignal>

#include "app/worker/heartbeat.h"

namespace wide::ending_test {
namespace {

TEST(ProcessEnding, SignalsHaveNames) {
  EXPECT_EQ(signal_text(SIGSEGV), "SIGSEGV (Segmentation fault)");
  EXPECT_EQ(signal_text(999), "signal 999");
}

TEST(ProcessEnding, TheLastLineIsTheLastThatSaysSomething) {
  EXPECT_EQ(last_line(""), "");
  EXPECT_EQ(last_line(" \n\n"), "");
  EXPECT_EQ(last_line("only"), "only");
  EXPECT_EQ(last_line("\none"), "one");
  EXPECT_EQ(last_line("first\nlast\n \n"), "last");
  EXPECT_EQ(last_line("first\n\nwhy: \tso"), "why: \\x09so");
  EXPECT_LE(last_line(std::string(1000, 'x')).size(), 203u);
}

TEST(ProcessEnding, ABeatEndsTheSilence) {
  Heartbeat* heart = Heartbeat::map(-1);
  ASSERT_NE(heart, nullptr);
  Silence silence;
  silence.leave_out(-7);
  silence.listen(*heart);
  EXPECT_GE(silence.seconds(), 7);
  heart->beat();
  silence.listen(*heart);
  EXPECT_LT(silence.seconds(), 5);
  silence.leave_out(-7);
  silence.listen(*heart);
  EXPECT_GE(silence.seconds(), 7) << "no beat since";
  silence.restart();
  EXPECT_LT(silence.seconds(), 5);
  munmap(heart, sizeof(Heartbeat));
}

}  // namespace
}  // namespace wide::ending_test
