// The report about a GPU on a runtime that is none: all stages to the verdict, with failing ones
// planted in children of this test, which run the command line itself.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/gpu/stage.h"
#include "data/store/store.h"
#include "engine/error.h"
#include "tests/data/store/stored.h"
#include "tests/device/fake_runtime.h"
#include "tests/scratch.h"

namespace wide::gpu_report_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool planted(const char* what) {
  const char* wanted = std::getenv("WORKBENCH_PLANT_GPU");
  return wanted && std::string(wanted).find(what) != std::string::npos;
}

GpuStage stage(const std::string& name, int order, std::function<void(Steps&)> run) {
  return {name, "a planted stage", order, 15, std::move(run), {}};
}

void add_planted() {
  new FakeRuntime;  // of this process, to its end
  if (!planted("faults")) return;
  add_gpu_stage(stage("throws", 25, [](Steps& steps) {
    steps.step("good", [] { return nlohmann::ordered_json(); });
    steps.step("bad", []() -> nlohmann::ordered_json { fail("[planted] throw: got <one>"); });
    steps.step("goes on", [] { return nlohmann::ordered_json(7); });
  }));
  add_gpu_stage(stage("crashes", 26, [](Steps& steps) {
    steps.step("dies", []() -> nlohmann::ordered_json { std::abort(); });
  }));
  GpuStage hangs = stage("hangs", 27, [](Steps& steps) {
    steps.step("waits", []() -> nlohmann::ordered_json {
      for (;;) pause();
    });
  });
  hangs.limit_s = 5;
  add_gpu_stage(hangs);
  GpuStage cut = stage("cut", 24, [](Steps&) {
    for (;;) pause();
  });
  cut.limit_s = 2;
  cut.cut = [](const std::string&) { return "half of it is right"; };
  add_gpu_stage(cut);
  add_gpu_stage(stage("breaks", 28, [](Steps& steps) {
    steps.step("asserts", []() -> nlohmann::ordered_json {
      (new FakeRuntime)->break_with("device-side assert triggered");
      return {};
    });
    steps.step("never", [] { return nlohmann::ordered_json(); });
  }));
}

const bool registered = planted("gpu") && (add_planted(), true);

struct Finished {
  int code = -1;
  std::string out, err;
  Json report;
  std::string page;
};

Finished run(const std::string& plant, const std::string& arguments) {
  const Scratch scratch;
  const std::string self = fs::read_symlink("/proc/self/exe");
  const std::string command = "WORKBENCH_PLANT_GPU=" + plant + " " + self + " gpu-report --out " +
                              (scratch / "report") + " " + arguments + " >" + (scratch / "out") +
                              " 2>" + (scratch / "err");
  const int status = std::system(command.c_str());
  Finished done;
  done.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  done.out = read_text(scratch / "out");
  done.err = read_text(scratch / "err");
  const std::string json = scratch / "report/gpu-report.json";
  if (fs::exists(json)) done.report = Json::parse(read_text(json));
  if (fs::exists(scratch / "report/gpu-report.html"))
    done.page = read_text(scratch / "report/gpu-report.html");
  return done;
}

Json named(const Json& list, const char* key, const std::string& name) {
  for (const Json& one : list)
    if (one.at(key) == name) return one;
  return nullptr;
}

TEST(GpuReport, RunsAllStagesToAVerdictThatNamesTheFirstFailing) {
  const Finished done = run("gpu,faults", "--device cpu");
  ASSERT_FALSE(done.report.is_null()) << done.err;
  const Json& stages = done.report.at("stages");
  const auto status = [&](const char* name) { return named(stages, "name", name).at("status"); };
  for (const char* good :
       {"machine", "ladder", "sandbox", "numerics", "graphs", "assertions", "peaks", "figures"})
    EXPECT_EQ(status(good), "ok") << good << ": " << named(stages, "name", good).at("reason");
  EXPECT_EQ(status("cut"), "ok");
  EXPECT_EQ(named(stages, "name", "cut").at("reason"), "half of it is right");
  EXPECT_EQ(status("throws"), "failed");
  EXPECT_EQ(status("crashes"), "crashed");
  EXPECT_EQ(status("hangs"), "timeout");
  EXPECT_EQ(status("breaks"), "failed");

  const Json throws = named(stages, "name", "throws").at("steps");
  EXPECT_EQ(named(throws, "step", "bad").at("reason"), "[planted] throw: got <one>");
  EXPECT_EQ(named(throws, "step", "goes on").at("data"), 7);
  EXPECT_EQ(named(stages, "name", "crashes").at("steps").at(0).at("reason"), "did not end");
  const Json breaks = named(stages, "name", "breaks");
  EXPECT_NE(breaks.at("reason").get<std::string>().find("a persistent error"), std::string::npos)
      << breaks;
  EXPECT_TRUE(named(breaks.at("steps"), "step", "never").is_null()) << "a broken device was used";
  EXPECT_FALSE(named(stages, "name", "machine").at("steps").at(0).at("data").contains("host"));
  EXPECT_GT(named(stages, "name", "numerics").at("steps").size(), 40u);

  EXPECT_EQ(done.report.at("verdict"), (Json{{"status", "failed"},
                                             {"stage", "throws"},
                                             {"step", "bad"},
                                             {"reason", "[planted] throw: got <one>"}}));
  const size_t first = done.page.find("The first stage that is not ok: <b>throws</b>, step <b>bad");
  EXPECT_NE(first, std::string::npos) << done.page.substr(0, 2000);
  EXPECT_NE(done.page.find("got &lt;one&gt;"), std::string::npos);
  EXPECT_EQ(done.code, 5) << "a later stage crashed: " << done.err;
  const Json settings = named(named(stages, "name", "machine").at("steps"), "step", "settings");
  EXPECT_EQ(settings.at("data"), (Json{{"tf32", "off"}}));
  EXPECT_NE(done.err.find("[gpu-report] throws: got failed, expected ok"), std::string::npos);
}

TEST(GpuReport, FiguresMayBeCutWhereHalfOfThemAreRight) {
  const auto said = [](const std::vector<Status>& statuses) {  // of the first cases of four
    const Scratch scratch;
    Store store = Store::create(scratch / "gpu-report.db");
    const int64_t sweep = store.begin(stored_plan("gpu-report", {2, 4, 8, 16}));
    for (size_t k = 0; k < statuses.size(); ++k) {
      Case ran = stored_case(int64_t{2} << k, k, /*trials=*/1);
      ran.trials[0].status = statuses[k];
      store.add_case(sweep, static_cast<int64_t>(k), ran);
    }
    return find_gpu_stage("figures").cut(scratch.path());
  };
  EXPECT_EQ(find_gpu_stage("figures").cut("/nowhere"), "");
  EXPECT_EQ(said({Status::ok}), "");
  EXPECT_EQ(said({Status::ok, Status::unsupported}),
            "the time limit came after 2 of 4 cases, none of whose trials failed");
  for (const Status bad : {Status::incorrect, Status::crashed, Status::timeout, Status::oom})
    EXPECT_EQ(said({Status::ok, Status::ok, bad}), "");
}

TEST(GpuReport, SaysWhatItWouldDo) {
  for (const auto& [arguments, code] : {std::pair{"--dry-run", 0}, {"--device cuda:99", 6}}) {
    const Finished done = run("nothing", arguments);
    EXPECT_EQ(done.code, code) << done.err;
    for (const char* stage :
         {"machine", "ladder", "sandbox", "numerics", "graphs", "assertions", "figures"})
      EXPECT_NE(done.out.find(std::string("  ") + stage), std::string::npos) << done.out;
    EXPECT_NE(done.out.find("in all at most"), std::string::npos);
    EXPECT_TRUE(done.report.is_null());
  }
  double limit_s = 0;
  for (const GpuStage& stage : gpu_stages()) limit_s += stage.limit_s;
  EXPECT_LE(limit_s, 20 * 60);
}

}  // namespace
}  // namespace wide::gpu_report_test
