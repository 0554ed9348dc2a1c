// Trials that take their worker with them: each gets its status, and the rest of the sweep is
// complete. The faults are strategies of a target that exists only in children of this test.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <torch/library.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "tests/app/planted_target.h"
#include "tests/device/fake_runtime.h"

namespace wide::worker_faults_test {
namespace {

namespace fs = std::filesystem;

/// Leaves a file behind where a test waits for it.
[[noreturn]] void hang() {
  if (const char* mark = std::getenv("WORKBENCH_PLANT_MARK")) std::ofstream(mark) << "hangs";
  for (;;) pause();
}

/// Faster than anybody reads: the pages themselves go into the pipe.
[[noreturn]] void chatter() {
  std::string noise(1 << 20, 'x');
  fcntl(STDOUT_FILENO, F_SETPIPE_SZ, noise.size());
  const iovec pages{noise.data(), noise.size()};
  while (::vmsplice(STDOUT_FILENO, &pages, 1, 0) >= 0) continue;
  hang();
}

/// On every descriptor it can find: one of them is the pipe to the sweep.
void write_everywhere(const std::string& line) {
  for (int fd = 1; fd < 1024; ++fd)
    if (fd != STDERR_FILENO && ::write(fd, line.data(), line.size()) < 0) continue;
}

[[noreturn]] void write_garbage() {
  write_everywhere("no message\n");
  hang();
}

/// A result with a trial that the sweep did not ask for.
[[noreturn]] void answer_for_nobody() {
  Case c;
  c.trials.emplace_back().strategy = "nobody";
  write_everywhere(nlohmann::ordered_json{{"result", to_json(c)}, {"resident", 0}}.dump() + "\n");
  hang();
}

[[noreturn]] void take_all_memory() {
  Tensors hoard;
  for (;;) hoard.push_back(at::empty({int64_t{1} << 28}));  // mapped, never touched
}

/// Fails only once it has been called often, which is while it is timed.
Tensor late(const Tensor& x, int64_t kind) {
  static int64_t calls[3] = {};
  if (++calls[kind] > 2000) {
    if (kind == 0) ::raise(SIGSEGV);
    if (kind == 1) hang();
    if (kind == 2) throw std::runtime_error("thrown while timed");
  }
  return x + 0;
}

TORCH_LIBRARY_FRAGMENT(planted, m) {
  m.def("late(Tensor x, int kind) -> Tensor");
  m.impl("late", c10::DispatchKey::CPU, TORCH_FN(late));
}

Tensor call_late(const Tensor& x, int64_t kind) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("planted::late", "")
                             .typed<Tensor(const Tensor&, int64_t)>();
  return op.call(x, kind);
}

Target faults() {
  Target t = planted_target("a_faults", "aten::linear", planted_linear(), {0, 1, 2});
  const auto add = [&t](const std::string& name, std::function<void()> fault) {
    t.strategies.push_back(
        strategy<Planted>(name, "a fault", [fault](const Planted&, const WideCall& c) {
          fault();
          return Tensors{planted_product(c)};
        }));
  };
  add("good", [] {});
  add("aborts", [] { std::abort(); });
  add("segfaults", [] { ::raise(SIGSEGV); });
  add("hangs", [] { hang(); });
  add("prints", [] { std::printf("{\"result\": 1}\nnoise\n"), std::fflush(stdout); });
  add("garbage", [] { write_garbage(); });
  add("blames_nobody", [] {
    write_everywhere("{\"stage\": \"check\", \"name\": \"nobody\"}\n");
    std::abort();
  });
  add("times_nobody", [] {
    write_everywhere("{\"time\": [\"nobody\"]}\n");
    std::abort();
  });
  add("answers", [] { answer_for_nobody(); });
  add("chatters", [] { chatter(); });
  add("hoards", [] { take_all_memory(); });
  add("killed", [] { ::raise(SIGKILL); });
  add("throws", [] { throw std::runtime_error("thrown on purpose"); });
  add("exits", [] { ::_exit(7); });
  add("breaks", [] {  // as an assertion inside a GPU's kernel: no call is answered after it
    (new FakeRuntime)->break_with("device-side assert triggered");
    throw std::runtime_error("thrown by a call after it");
  });
  add("after_it", [] {});
  const auto add_late = [&t](const std::string& name, int64_t kind) {
    t.strategies.push_back(
        strategy<Planted>(name, "a late fault", [kind](const Planted&, const WideCall& c) {
          return Tensors{call_late(planted_product(c), kind)};
        }));
  };
  add_late("late_segfault", 0);
  add_late("late_hang", 1);
  add_late("late_throw", 2);
  return t;
}

const bool registered =
    std::getenv("WORKBENCH_PLANT_FAULTS") != nullptr && add_target(faults(), __FILE__);

/// A sweep of the planted target and a good one, run by this executable as the command line.
class WorkerFaults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / ("faults-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "p.json")
        << R"({"schema": 1, "name": "planted", "description": "faults",
    "targets": ["a_faults", "layernorm"], "n": [2], "sweep": "ci", "budget_s": 0.1})";
    const std::string self = fs::read_symlink("/proc/self/exe");
    const std::string command =
        "WORKBENCH_PLANT_FAULTS=1 " + self + " sweep " + (folder_ / "p.json").string() +
        " --timeout 4 --no-store --json " + (folder_ / "out.json").string() + " >" +
        (folder_ / "out.txt").string() + " 2>" + (folder_ / "err.txt").string();
    const int status = std::system(command.c_str());
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream file(folder_ / "out.json");
    if (file) report_ = nlohmann::json::parse(file);
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static nlohmann::json trial(const std::string& strategy) {
    for (const auto& c : report_.at("cases"))
      if (c.at("target") == "a_faults")
        for (const auto& t : c.at("trials"))
          if (t.at("strategy") == strategy) return t;
    return {};
  }

  static inline fs::path folder_;
  static inline int exit_code_ = -1;
  static inline nlohmann::json report_;
};

TEST_F(WorkerFaults, EachBecomesItsStatus) {
  ASSERT_FALSE(report_.is_null());
  const std::tuple<const char*, const char*, const char*> expected[] = {
      {"aborts", "crashed", "[aborts] prepare: got SIGABRT (Aborted)"},
      {"segfaults", "crashed", "[segfaults] prepare: got SIGSEGV (Segmentation fault)"},
      {"hangs", "timeout", "[hangs] prepare: got no end after 4"},
      {"chatters", "timeout", "[chatters] prepare: got no end after 4"},
      {"garbage", "crashed", "[garbage] prepare: got no message on the worker's pipe"},
      {"blames_nobody", "crashed", "[blames_nobody] prepare: got {\"stage\": \"check\""},
      {"times_nobody", "crashed", "[times_nobody] prepare: got {\"time\": [\"nobody\"]}"},
      {"answers", "crashed", "[answers] prepare: got {\"result\":"},
      {"hoards", "oom", "memory"},
      {"killed", "crashed", "[killed] prepare: got SIGKILL (Killed)"},
      {"throws", "crashed", "thrown on purpose"},
      {"exits", "crashed", "[exits] prepare: got exit code 7"},
      {"breaks", "crashed", "a persistent error (device-side assert triggered)"},
      {"late_segfault", "crashed", "[late_segfault] time: got SIGSEGV"},
      {"late_hang", "timeout", "[late_hang] time: got no end after 4"},
      {"late_throw", "crashed", "thrown while timed"}};
  for (const auto& [strategy, status, reason] : expected) {
    const nlohmann::json t = trial(strategy);
    EXPECT_EQ(t.at("status"), status) << strategy << ": " << t.at("reason");
    EXPECT_NE(t.at("reason").get<std::string>().find(reason), std::string::npos) << t.at("reason");
    EXPECT_TRUE(t.at("speedup").is_null());
  }
}

TEST_F(WorkerFaults, OutOfMemorySaysTheEstimate) {
  EXPECT_NE(trial("hoards").at("reason").get<std::string>().find("needed by estimate"),
            std::string::npos)
      << trial("hoards").at("reason");
}

TEST_F(WorkerFaults, TheRestIsComplete) {
  ASSERT_EQ(report_.at("cases").size(), 2u);
  EXPECT_EQ(report_.at("sweep").at("state"), "complete");
  for (const char* strategy : {"good", "prints", "after_it", "vmap", "per_model"}) {
    const nlohmann::json t = trial(strategy);
    EXPECT_EQ(t.at("status"), "ok") << t.at("reason");
    EXPECT_FALSE(t.at("speedup").is_null());
  }
  const auto& first = report_.at("cases").at(0);
  EXPECT_EQ(first.at("trials").at(0).at("strategy"), "good");
  EXPECT_GE(first.at("baselines").size(), 2u);
  for (const auto& t : report_.at("cases").at(1).at("trials")) EXPECT_EQ(t.at("status"), "ok");
}

TEST_F(WorkerFaults, CancellingEndsAHangingWorkerToo) {
  const std::string self = fs::read_symlink("/proc/self/exe");
  const std::string json = (folder_ / "cut.json").string();
  const std::string mark = (folder_ / "hangs").string();
  const int status = std::system(
      ("export WORKBENCH_PLANT_FAULTS=1 WORKBENCH_PLANT_MARK=" + mark + "; " + self + " sweep " +
       (folder_ / "p.json").string() + " --strategy a_faults=hangs --no-store --quiet --json " +
       json + " 2>/dev/null & until [ -e " + mark + " ]; do sleep 0.1; done; kill -TERM $!; " +
       "date +%s >" + mark + "; wait $!")
          .c_str());
  double cancelled_s = 0;
  std::ifstream(mark) >> cancelled_s;
  EXPECT_LT(static_cast<double>(std::time(nullptr)) - cancelled_s, 20);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  std::ifstream file(json);
  ASSERT_TRUE(file);
  const auto report = nlohmann::json::parse(file);
  EXPECT_EQ(report.at("sweep").at("state"), "cancelled");
  EXPECT_EQ(report.at("cases").at(0).at("trials").at(0).at("status"), "cancelled");
}

TEST_F(WorkerFaults, ExitCodeIsFiveInOneLine) {
  EXPECT_EQ(exit_code_, 5);
  std::ifstream errors(folder_ / "err.txt");
  std::string line, last;
  while (std::getline(errors, line)) last = line;
  EXPECT_EQ(last.rfind("[planted] trials: got ", 0), 0u) << last;
}

}  // namespace
}  // namespace wide::worker_faults_test
