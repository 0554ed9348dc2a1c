// The tests' executable is also its own worker and command line, so that targets which exist only
// here can be swept.
#include <gtest/gtest.h>

#include <string_view>

#include "app/cli.h"

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "worker" || first == "sweep" || first == "list" || first == "explorer")
    return wide::run_cli(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
