#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/error.h"
#include "tests/scratch.h"

namespace wide {

struct Run {
  int exit_code = -1;
  std::string out, err;
};

/// Runs a shell command, both streams apart.
inline Run shell(const std::string& command) {
  const Scratch scratch;
  const int status =
      std::system((command + " >" + scratch / "out" + " 2>" + scratch / "err").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          read_text(scratch / "out"), read_text(scratch / "err")};
}

/// Runs a Python script in `folder` with the interpreter of the tests, which has torch and
/// safetensors; fails the test when the script fails.
inline std::string python(const std::filesystem::path& folder, const std::string& script) {
  const char* interpreter = std::getenv("WORKBENCH_TEST_PYTHON");
  write_text((folder / "script.py").string(), script);
  const Run run = shell("cd '" + folder.string() + "' && '" +
                        (interpreter ? interpreter : "python3") + "' -W ignore script.py");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

/// The message of the Error that `work` throws, or "" when it throws none.
inline std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace wide
