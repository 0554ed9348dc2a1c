// The tests' executable is also its own worker and command line, so that targets which exist only
// here can be swept.
#include <gtest/gtest.h>

#include <csignal>

#include "app/cli.h"

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') return wide::run_cli(argc, argv);  // a command
  std::signal(SIGPIPE, SIG_IGN);                                        // as app/main.cpp does
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
