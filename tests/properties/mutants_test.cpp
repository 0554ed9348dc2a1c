// Files changed at random are refused or run: every end is a documented one, says so in one line,
// and takes bounded time and memory. WORKBENCH_MUTANTS=20000 makes more of them than the tests do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>

#include "app/cli.h"
#include "engine/machine/clock.h"
#include "tests/data/python.h"

namespace wide::mutants_test {
namespace {

constexpr double kProcessorSeconds = 10;  // a busy machine does not stretch these
constexpr double kSeconds = 120;          // for what hangs without computing
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kMostBytes = int64_t{3} << 30;  // with the sanitizer's shadow and quarantine
#else
constexpr int64_t kMostBytes = int64_t{1} << 30;
#endif
constexpr int kBatch = 500;  // files on the disk at once

struct End {
  int status = 0;
  double seconds = 0;
  double processor_seconds = 0;  // of all threads and of the processes it waited for
  int64_t peak_bytes = 0;
  std::string err;
};

/// The command line in a process of its own, which has LibTorch from here.
End run_apart(std::vector<std::string> words, const std::string& scratch) {
  const std::string err = scratch + "/err";
  const double begun = now_s();
  const pid_t pid = fork();
  if (pid == 0) {
    const int out = open("/dev/null", O_WRONLY);
    const int errors = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    setpgid(0, 0);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int code = run_cli(static_cast<int>(words.size()), arguments.data());
    std::fflush(nullptr);
    _exit(code);
  }
  End end;
  rusage used{};
  while (wait4(pid, &end.status, WNOHANG, &used) == 0) {
    if (now_s() - begun > kSeconds) {
      kill(-pid, SIGKILL);
      wait4(pid, &end.status, 0, &used);
      break;
    }
    usleep(2000);
  }
  end.seconds = now_s() - begun;
  for (const timeval& part : {used.ru_utime, used.ru_stime})
    end.processor_seconds += static_cast<double>(part.tv_sec) + 1e-6 * part.tv_usec;
  end.peak_bytes = used.ru_maxrss * 1024;
  end.err = read_text(err);
  return end;
}

class Mutants : public ::testing::TestWithParam<std::string> {
 protected:
  /// The sound file that mutants are made of, where Python does not make it.
  void make_base(const Scratch& scratch) const {
    const std::string base = scratch / ("base." + GetParam());
    const std::string preset =
        R"({"schema": 1, "name": "one", "description": "one", "targets": ["linear"], "sweep": "ci",
            "n": [2], "axes": {"linear": {"D": [4]}}, "modes": ["default"], "phases": ["forward"],
            "dtypes": ["f32"], "devices": ["cpu"], "baselines": ["loop"], "budget_s": 0.01})";
    if (GetParam() == "preset") write_text(base, preset);
    if (GetParam() != "report" && GetParam() != "store") return;
    write_text(scratch / "one.json", preset);
    std::vector<std::string> words = {"workbench", "sweep", scratch / "one.json"};
    const bool store = GetParam() == "store";
    words.insert(words.end(), {"--db", store ? base : scratch / "other.db"});
    ASSERT_EQ(run_apart(words, scratch.path().string()).status, 0);
    if (store) return;
    words = {"workbench", "report", "last", "--db", scratch / "other.db", "--json", base};
    ASSERT_EQ(run_apart(words, scratch.path().string()).status, 0);
  }

  std::vector<std::string> command(const Scratch& scratch, int i) const {
    const std::string file = scratch / (std::to_string(i) + "." + GetParam());
    if (GetParam() == "preset")
      return {"workbench", "sweep", file, "--no-store", "--quiet", "--budget", "0.01"};
    if (GetParam() == "report") return {"workbench", "report", file, "--json", scratch / "again"};
    if (GetParam() == "store") return {"workbench", "report", "last", "--db", file};
    std::vector<std::string> fuse = {"workbench", "fuse",  file,         "-n",     "2",
                                     "--budget",  "0.001", "--no-store", "--quiet"};
    if (GetParam() == "ts") fuse.insert(fuse.end(), {"--input", "x=2x2x5x5:f32"});
    return fuse;
  }
};

TEST_P(Mutants, EndAsDocumented) {
  const char* asked = std::getenv("WORKBENCH_MUTANTS");
  const int count = asked ? std::atoi(asked) : 120;
  const char* seed = std::getenv("WORKBENCH_MUTANTS_SEED");
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "home");
  setenv("HOME", (scratch / "home").c_str(), 1);  // of what is kept for the user
  ASSERT_NO_FATAL_FAILURE(make_base(scratch));
  const std::string script =
      read_text(std::string(std::getenv("WORKBENCH_SOURCE")) + "/tests/properties/mutants.py");
  std::map<int, int> ends;
  for (int first = 0; first < count; first += kBatch) {
    const int now = std::min(kBatch, count - first);
    python(scratch.path(), "import sys; sys.argv = ['', '" + GetParam() + "', '" +
                               (seed ? seed : "1") + "-" + std::to_string(first) + "', '" +
                               std::to_string(now) + "']\n" + script);
    for (int i = 0; i < now; ++i) {
      const std::vector<std::string> words = command(scratch, i);
      const End end = run_apart(words, scratch.path().string());
      const int code = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -WTERMSIG(end.status);
      ++ends[code];
      // A store that cannot be read is a matter of the environment.
      const bool documented = std::set<int>{0, 2, 4, 5, GetParam() == "store" ? 1 : 0}.count(code);
      const auto lines = std::count(end.err.begin(), end.err.end(), '\n');
      if (documented && end.seconds <= kSeconds && end.processor_seconds <= kProcessorSeconds &&
          end.peak_bytes <= kMostBytes && lines == (code != 0))
        continue;
      const std::string kept =
          ::testing::TempDir() + "/mutant-" + std::to_string(first + i) + "." + GetParam();
      std::filesystem::copy_file(words[GetParam() == "store" ? 4 : 2], kept,
                                 std::filesystem::copy_options::overwrite_existing);
      ADD_FAILURE() << kept << ": exit " << code << " after " << end.seconds << " s ("
                    << end.processor_seconds << " s of a processor), " << end.peak_bytes / 1000000
                    << " MB: " << end.err.substr(0, 1000);
    }
  }
  std::string said;
  for (const auto& [code, times] : ends)
    said += " exit " + std::to_string(code) + ": " + std::to_string(times);
  RecordProperty("ends", said);
  if (asked) std::printf("%s%s\n", GetParam().c_str(), said.c_str());
  EXPECT_GT(ends[GetParam() == "store" ? 1 : 2], 0);
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, ::testing::Values("pt2", "ts", "preset", "report", "store"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace wide::mutants_test
