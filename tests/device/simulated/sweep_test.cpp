// Sweeps on the simulated device by this executable as the command line, with a worker of its own:
// both modes and all phases, a device that breaks, cancelling; and the device in a sandbox.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/cli.h"
#include "app/sandbox/sandbox.h"
#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/device.h"
#include "tests/app/planted_target.h"
#include "tests/device/mlp.h"
#include "tests/device/simulated/backend.h"
#include "tests/scratch.h"

namespace wide::simulated {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

[[noreturn]] void hang() {
  write_text(std::getenv("WORKBENCH_PLANT_MARK"), "hangs");
  for (;;) pause();
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
  add("breaks", [] {
    Streams::get().break_with("an assertion failed in a kernel");
    at::ones({1}, at::TensorOptions().device(kDevice));
  });
  add("fills", [] { at::empty({int64_t{1} << 33}, at::TensorOptions().device(kDevice)); });
  add("good", [] {});
  if (std::getenv("WORKBENCH_PLANT_MARK") != nullptr) add("hangs", [] { hang(); });
  return t;
}

/// Says at the end of a process, in a file of that name and its number, whether it has used the
/// device.
void note_use() {
  const std::string command = read_text("/proc/self/cmdline");
  if (command.find("sweep") != std::string::npos)
    write_text(std::getenv("WORKBENCH_PLANT_USE"), Streams::get().launches > 0 ? "used" : "unused");
}

const bool child = std::getenv("WORKBENCH_PLANT_USE") != nullptr &&
                   (install(), Memory::get(), std::atexit(&note_use), true);
const bool registered =
    std::getenv("WORKBENCH_PLANT_FAULTS") != nullptr && add_target(faults(), __FILE__);

struct Swept {
  int code = -1;
  std::string out, err, used;
  Json report;

  Json trial(const std::string& target, const std::string& strategy) const {
    for (const Json& c : report.at("cases"))
      if (c.at("target") == target)
        for (const Json& t : c.at("trials"))
          if (t.at("strategy") == strategy) return t;
    return {};
  }
};

/// `arguments` of the sweep; `after`: more of the shell's line, which has started the sweep in the
/// background if it is not empty.
Swept sweep(const std::string& preset, const std::string& arguments,
            const std::string& environment = "", const std::string& after = "") {
  const Scratch scratch;
  static const Scratch cache;  // with what the device reaches at most, measured once
  write_text(scratch / "p.json", preset);
  const std::string self = fs::read_symlink("/proc/self/exe");
  const int status = std::system(
      ("export WORKBENCH_PLANT_USE=" + (scratch / "use") +
       " XDG_CACHE_HOME=" + cache.path().string() + " " + environment + "; " + self + " sweep " +
       (scratch / "p.json") + " --no-store --quiet --threads 1 " + arguments + " --json " +
       (scratch / "out.json") + " >" + (scratch / "out") + " 2>" + (scratch / "err") + after)
          .c_str());
  Swept swept;
  swept.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  swept.out = read_text(scratch / "out");
  swept.err = read_text(scratch / "err");
  swept.used = read_text(scratch / "use");
  if (fs::exists(scratch / "out.json")) swept.report = Json::parse(read_text(scratch / "out.json"));
  return swept;
}

TEST(SimulatedSweep, EveryPhaseInBothModes) {
  const Swept swept = sweep(
      R"({"schema": 1, "name": "device", "description": "a device", "targets": ["linear",
      "dropout"], "n": [3], "sweep": "ci", "devices": ["simulated"], "budget_s": 0.01,
      "modes": ["default", "reduce-overhead"], "phases": ["forward", "backward", "step"]})",
      "");
  ASSERT_EQ(swept.code, 0) << swept.err;
  EXPECT_EQ(swept.used, "unused") << "the process that holds the store has used the device";
  EXPECT_EQ(swept.report.at("sweep").at("state"), "complete");
  EXPECT_EQ(swept.report.at("environment").at("gpu"), "Simulated device");
  ASSERT_GE(swept.report.at("cases").size(), 2u * 2 * 3);
  int steps = 0;
  for (const Json& c : swept.report.at("cases")) {
    const std::string where =
        fmt::format("{} {} {}", c.at("target").get<std::string>(), c.at("mode").get<std::string>(),
                    c.at("phase").get<std::string>());
    EXPECT_EQ(c.at("device"), "simulated:0") << where;
    std::set<std::string> timed;
    for (const Json& b : c.at("baselines")) timed.insert(b.at("name"));
    int good = 0;
    for (const Json& t : c.at("trials")) {
      EXPECT_TRUE(t.at("status") == "ok" || t.at("status") == "unsupported")
          << where << ": " << t.at("reason");
      good += t.at("status") == "ok" ? 1 : 0;
    }
    if (c.at("phase") == "step" && c.at("target") == "dropout") continue;  // no parameters
    steps += c.at("phase") == "step" ? 1 : 0;
    EXPECT_GE(good, 2) << where;
    for (const char* name : {"loop", "streams", "graph"})
      EXPECT_TRUE(timed.count(name)) << where << " " << name << " " << c.at("notes");
  }
  EXPECT_EQ(steps, 2);
}

/// Under --tf32 on, shares are of what products in TF32 reach at most: a worker measures it so.
TEST(SimulatedSweep, PeaksAreThoseOfTheProductsThatAreTimed) {
  const std::string preset =
      R"({"schema": 1, "name": "peaks", "description": "peaks", "targets": ["linear"], "n": [2],
      "sweep": "ci", "devices": ["simulated"], "budget_s": 0.01})";
  const Scratch cache;  // for each of both settings one entry
  for (const bool tf32 : {false, true}) {
    const Swept swept =
        sweep(preset, tf32 ? "--tf32 on" : "--tf32 off", "XDG_CACHE_HOME=" + cache.path().string());
    ASSERT_EQ(swept.code, 0) << swept.err;
    const Json& said = swept.report.at("environment");
    EXPECT_EQ(said.at("gpu_state").at("tf32"), tf32 ? "on" : "off");
    int found = 0;
    const Json kept = Json::parse(read_text(cache / "workbench/peaks.json"));
    for (const auto& [key, peaks] : kept.items())
      if (key.find("simulated:0 (") != std::string::npos &&
          (key.find(", tf32)") != std::string::npos) == tf32) {
        ++found;
        EXPECT_DOUBLE_EQ(said.at("peaks").at("flops_per_s").at("f32").get<double>(),
                         peaks.at("flops_per_s").at("f32").get<double>())
            << key;
      }
    EXPECT_EQ(found, 1) << tf32;
  }
}

TEST(SimulatedSweep, NetworksThatMayNotFitAreRecordedForTheirDevice) {
  const Swept swept = sweep(
      R"({"schema": 1, "name": "large", "description": "large", "targets": ["naive_attention",
      "language_model"], "n": [2], "sweep": "ci", "devices": ["simulated"], "budget_s": 0.05,
      "phases": ["forward", "backward"]})",
      "");
  ASSERT_EQ(swept.code, 0) << swept.err;
  ASSERT_GE(swept.report.at("cases").size(), 2u * 2);
  for (const Json& c : swept.report.at("cases"))
    for (const Json& t : c.at("trials"))
      EXPECT_TRUE(t.at("status") == "ok" || t.at("status") == "unsupported")
          << c.at("target") << " " << c.at("phase") << " " << t.at("strategy") << ": "
          << t.at("reason");
}

/// A driver that knows of three processes on the device, of which the sweep's worker is one.
TEST(SimulatedSweep, OtherProcessesOnTheDeviceMakeItsTimesUnclear) {
  const std::string driver =
      fs::path(fs::read_symlink("/proc/self/exe")).parent_path() / "busy_driver";
  const Swept swept = sweep(
      R"({"schema": 1, "name": "busy", "description": "busy", "targets": ["linear"], "n": [2],
      "sweep": "ci", "devices": ["simulated"], "budget_s": 0.01})",
      "", "LD_LIBRARY_PATH=" + driver + ":$LD_LIBRARY_PATH");
  ASSERT_EQ(swept.code, 0) << swept.err;
  const Json& c = swept.report.at("cases").at(0);
  EXPECT_EQ(c.at("disturbed"), true);
  EXPECT_NE(c.at("notes").dump().find("2 other processes had work on simulated:0"),
            std::string::npos)
      << c.at("notes");
  for (const Json& t : c.at("trials"))
    if (t.at("status") == "ok") {
      EXPECT_EQ(t.at("verdict"), "UNCLEAR") << t;
    }
}

TEST(SimulatedSweep, ABrokenDeviceIsLeftToItsWorker) {
  const Swept swept = sweep(
      R"({"schema": 1, "name": "faults", "description": "faults", "targets": ["a_faults"],
      "n": [2], "sweep": "ci", "devices": ["simulated"], "budget_s": 0.01})",
      "--timeout 60", "WORKBENCH_PLANT_FAULTS=1");
  EXPECT_EQ(swept.code, 5) << swept.err;
  ASSERT_FALSE(swept.report.is_null());
  const Json breaks = swept.trial("a_faults", "breaks"), fills = swept.trial("a_faults", "fills");
  EXPECT_EQ(breaks.at("status"), "crashed");
  EXPECT_NE(
      breaks.at("reason").get<std::string>().find(
          "a persistent error ([simulated] device-side error: an assertion failed in a kernel)"),
      std::string::npos)
      << breaks.at("reason");
  EXPECT_EQ(fills.at("status"), "oom") << fills.at("reason");
  for (const char* strategy : {"good", "vmap", "per_model"})
    EXPECT_EQ(swept.trial("a_faults", strategy).at("status"), "ok")
        << swept.trial("a_faults", strategy);
}

/// The engine itself tries the strategy that breaks, among those it chooses from: nothing is left
/// of the case, and the sweep goes on.
TEST(SimulatedSweep, ADeviceThatBreaksOutsideATrialEndsThatWorkerAlone) {
  const Swept swept = sweep(
      R"({"schema": 1, "name": "faults", "description": "faults", "targets": ["linear",
      "layernorm"], "n": [2], "sweep": "ci", "devices": ["simulated"], "budget_s": 0.01})",
      "--timeout 60", "WORKBENCH_PLANT_FAULTS=1");
  ASSERT_FALSE(swept.report.is_null()) << swept.err;
  EXPECT_EQ(swept.report.at("sweep").at("state"), "complete");
  for (const char* strategy : {"vmap", "per_model"})
    EXPECT_EQ(swept.trial("layernorm", strategy).at("status"), "ok")
        << swept.trial("layernorm", strategy);
}

TEST(SimulatedSweep, CancellingEndsItsWorkerToo) {
  const Scratch scratch;
  const std::string mark = scratch / "mark";
  const Swept swept = sweep(
      R"({"schema": 1, "name": "cut", "description": "cut", "targets": ["layernorm", "a_faults"],
      "n": [2], "sweep": "ci", "devices": ["simulated"], "budget_s": 0.01})",
      "--strategy a_faults=hangs", "WORKBENCH_PLANT_FAULTS=1 WORKBENCH_PLANT_MARK=" + mark,
      " & until [ -e " + mark + " ]; do sleep 0.1; done; kill -INT $!; wait $!");
  EXPECT_EQ(swept.code, 130) << swept.err;
  ASSERT_FALSE(swept.report.is_null());
  EXPECT_EQ(swept.report.at("sweep").at("state"), "cancelled");
  EXPECT_EQ(swept.trial("layernorm", "per_model").at("status"), "ok");
  EXPECT_EQ(swept.trial("a_faults", "hangs").at("status"), "cancelled");
}

/// Whoever has started a driver and is forked then cannot use it: the report about a GPU enters its
/// sandbox first.
TEST(SimulatedSweep, TheReportsSandboxIsTheFirstToUseTheDevice) {
  const Scratch scratch;
  const std::string self = fs::read_symlink("/proc/self/exe");
  const int status = std::system(("WORKBENCH_PLANT_USE=" + (scratch / "use") + " " + self +
                                  " gpu-report --stage sandbox --device simulated:0 >" +
                                  (scratch / "out") + " 2>" + (scratch / "err"))
                                     .c_str());
  EXPECT_EQ(status, 0) << read_text(scratch / "err");
  std::istringstream said(read_text(scratch / "out"));
  std::map<std::string, std::string> steps;
  for (std::string line; std::getline(said, line);)
    if (const Json step = Json::parse(line); step.contains("ok"))
      steps[step.at("step")] = step.at("reason");
  EXPECT_GE(steps.size(), 9u);
  for (const auto& [step, reason] : steps) EXPECT_EQ(reason, "") << step;
}

/// A process in the sandbox compiles, checks and replays on the device. It is forked from one that
/// has not used any.
TEST(SimulatedSweep, TheDeviceWorksInASandbox) {
  for (const bool device : {true, false}) {
    const pid_t pid = fork();
    if (pid == 0) {
      SandboxPolicy policy;
      policy.what = "net";
      policy.device = device;
      policy.timeout_s = 60;
      _exit(exit_code_of([&] {
        install();
        Memory::get();  // as a driver that is started before the rights are given up
        return run_in_sandbox(policy, [] {
          at::set_num_threads(1);
          const at::NoGradGuard no_grad;
          const Network network = mlp();
          const Ensemble ensemble = generate(network, 3, at::kFloat, kDevice, 3);
          const Program single = record_single(network, ensemble);
          CompileOptions options;
          options.mode = Mode::reduce_overhead;
          options.tune = false;
          const auto model = compile(network, ensemble, options, single);
          const Correctness c =
              check(network, single, ensemble, as_function(*model, network), 1e-5);
          return c.pass && Streams::get().replays > 0 && Streams::get().violations.empty() ? 0 : 3;
        });
      }));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << device;
  }
}

}  // namespace
}  // namespace wide::simulated
