#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/gpu/report.h"
#include "app/options.h"
#include "app/sweep/text.h"
#include "data/bytes/part_file.h"
#include "data/machine/environment.h"
#include "data/machine/gpu.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide::gpu_report_command {
namespace {

using Json = nlohmann::ordered_json;

class GpuReport : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--device", device_, "cuda or cuda:0; cpu for a rehearsal")
        ->capture_default_str();
    app.add_option("--out", folder_, "a folder for the report (JSON, HTML) and the sweep's store")
        ->capture_default_str();
    app.add_flag("--dry-run", dry_run_, "say what would run and how long at most, and run nothing");
    app.add_option("--stage", stage_)->group("");  // for the child process that runs one stage
  }

  int run() override {
    open_devices({device_});
    if (!stage_.empty()) {
      // Does not check that the device exists: once this process has used it, no forked sandbox
      // could.
      Steps steps{c10::Device(device_)};
      allow_tf32(false);  // cuDNN's default is TF32, which rounds
      find_gpu_stage(stage_).run(steps);
      return 0;
    }
    if (dry_run_) {
      print_plain(stages_text());
      return 0;
    }
    c10::Device device = c10::kCPU;
    try {
      device = parse_device(device_);
    } catch (const Error& e) {
      if (e.exit_code() == 6)
        print_plain("without a GPU nothing is run; with one:\n" + stages_text());
      throw;
    }
    return report(device);
  }

 private:
  static std::string stages_text() {
    std::string text;
    double limit_s = 0;
    for (const GpuStage& stage : gpu_stages()) {
      text +=
          fmt::format("  {:<10} at most {:>4.0f} s  {}\n", stage.name, stage.limit_s, stage.what);
      limit_s += stage.limit_s;
    }
    return text + fmt::format("  in all at most {}\n", duration_text(limit_s));
  }

  int report(c10::Device device) const {
    catch_cancel();
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    check_writable_place(folder_ + "/gpu-report.json");
    Json all = {{"schema", 1},
                {"date", utc_now()},
                {"device", device.str()},
                {"verdict", {}},
                {"stages", Json::array()}};
    for (const GpuStage& stage : gpu_stages()) {
      all["stages"].push_back(run_gpu_stage(stage, device, folder_));
      all["verdict"] = gpu_verdict(all["stages"]);
      write(".json", all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
      write(".html", gpu_report_html(all));
      const Json& done = all["stages"].back();
      print_plain(
          fmt::format("{:<10} {} in {:.1f} s{}\n", stage.name, done["status"].get<std::string>(),
                      done["seconds"].get<double>(),
                      done["reason"] == "" ? "" : ": " + done["reason"].get<std::string>()));
      std::fflush(stdout);
    }
    print_plain(fmt::format("the report: {}/gpu-report.html and .json\n", folder_));
    const Json& verdict = all["verdict"];
    if (verdict["status"] == "ok") return 0;
    throw Error(
        fmt::format("[gpu-report] {}: got {}, expected ok; try the report's first page",
                    verdict["stage"].get<std::string>(), verdict["status"].get<std::string>()),
        exit_code(all["stages"]));
  }

  /// 5 if any stage crashed or hung, even if another one failed before it.
  static int exit_code(const Json& stages) {
    for (const Json& stage : stages)
      if (stage["status"] == "crashed" || stage["status"] == "timeout") return 5;
    return 4;
  }

  void write(const char* ending, const std::string& text) const {
    write_file(folder_ + "/gpu-report" + ending, text);
  }

  std::string device_ = "cuda", folder_ = "gpu-report", stage_;
  bool dry_run_ = false;
};

const bool registered = add_command<GpuReport>(
    "gpu-report", "run on a GPU all that is to be known of it, in at most 20 minutes; one report");

}  // namespace
}  // namespace wide::gpu_report_command
