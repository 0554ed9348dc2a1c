#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/sandbox/sandbox.h"
#include "app/version.h"
#include "data/machine/gpu.h"
#include "data/machine/peaks.h"
#include "data/networks/network_format.h"
#include "data/reports/sweep/report.h"
#include "data/reports/sweep/report_json.h"
#include "data/store/store.h"
#include "data/text.h"
#include "engine/compile.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide::info_command {
namespace {

class Info : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_flag("--json", json_, "as JSON");
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
    app.add_flag("--measure-peaks", again_, "measure what the machine reaches at most again");
  }

  int run() override {
    open_devices({"auto"});
    Environment e = capture_environment(typed_command(), version(), git_state());
    add_peaks(e, machine_peaks(c10::kCPU, 0, again_));
    const auto no_cuda = unavailable(c10::kCUDA);
    if (!no_cuda) add_gpu(e, c10::kCUDA);
    std::vector<c10::Device> devices = {c10::kCPU};
    if (!no_cuda) devices.emplace_back(c10::kCUDA, 0);
    nlohmann::ordered_json j = to_json(e);
    std::string modes;
    j["modes"] = nlohmann::ordered_json::object();
    for (const Mode mode : kModes) {
      const auto why = unsupported(mode, devices);
      j["modes"][to_string(mode)] = why ? nlohmann::ordered_json(*why) : nullptr;
      modes += fmt::format("mode        {}: {}\n", to_string(mode), why ? *why : "yes");
    }
    j["cuda"] = no_cuda ? nlohmann::ordered_json(*no_cuda) : nullptr;
    j["formats"] = nlohmann::ordered_json::array();
    for (const NetworkFormat& format : network_formats()) j["formats"].push_back(format.name);
    j["sandbox"] = sandbox_lacks();
    const std::string store = store_text(&j["store"]);
    if (json_) {
      fmt::print("{}\n", j.dump(1));
      return 0;
    }
    fmt::print("{}\nLibTorch    {}\n", version_line(), e.libtorch);
    fmt::print("CPU         {}, {} cores, {} threads, governor {}\n", e.cpu, e.cores, e.threads,
               e.governor);
    fmt::print("peaks       {:.0f} GFLOP/s in f32, {:.0f} in f64, {:.1f} GB/s from memory\n",
               e.peak_flops_per_s["f32"] / 1e9, e.peak_flops_per_s["f64"] / 1e9,
               e.peak_bytes_per_s / 1e9);
    fmt::print("memory      {}, {} available\n", bytes_text(static_cast<double>(e.memory_bytes)),
               bytes_text(static_cast<double>(available_memory())));
    fmt::print("GPU         {}\n", no_cuda ? *no_cuda : gpu_text(e));
    const std::vector<std::string> lacks = sandbox_lacks();
    fmt::print("sandbox     {}\n", lacks.empty()
                                       ? "complete: networks from files can read named files only"
                                       : fmt::format("{}", fmt::join(lacks, "; ")));
    fmt::print("system      {} on {}\n{}store       {}\n", e.os, e.host, modes, store);
    return 0;
  }

 private:
  static std::string gpu_text(const Environment& e) {
    const GpuState& g = *e.gpu_state;
    return fmt::format("{}, driver {}, {:.0f} of {:.0f} MHz, {:.0f} W", e.gpu, g.driver, g.mhz,
                       g.max_mhz, g.power_limit_w);
  }

  /// An error of the store becomes part of the text and does not end the command.
  std::string store_text(nlohmann::ordered_json* json) const {
    const std::string path = Store::path(db_);
    *json = {{"path", path}};
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return printable(path, 300) + ", none yet";
    try {
      const StoreFacts f = Store::read(path).facts();
      json->update({{"schema", f.schema},
                    {"bytes", f.bytes},
                    {"sweeps", f.sweeps},
                    {"trials", f.trials},
                    {"samples", f.samples},
                    {"fusions", f.fusions},
                    {"tunings", f.tunings}});
      return fmt::format("{}, schema {}, {}, {} sweeps, {} trials, {} fusions, {} tunings",
                         printable(path, 300), f.schema, bytes_text(static_cast<double>(f.bytes)),
                         f.sweeps, f.trials, f.fusions, f.tunings);
    } catch (const Error& e) {
      (*json)["error"] = e.what();
      return e.what();
    }
  }

  std::string db_;
  bool json_ = false, again_ = false;
};

const bool registered = add_command<Info>("info", "versions, machine, and what runs on it");

}  // namespace
}  // namespace wide::info_command
