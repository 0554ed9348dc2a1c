#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace wide {

/// Runs the steps of a stage. Prints one line of JSON before and after each step, so that the
/// parent process can name a step that crashes this one.
class Steps {
 public:
  explicit Steps(c10::Device device) : device_(device) {}
  c10::Device device() const { return device_; }

  /// Runs a step. An exception fails it, and the next step runs; only a broken device ends the
  /// stage. `work` returns results for the report, or null.
  void step(const std::string& name, const std::function<nlohmann::ordered_json()>& work);

 private:
  c10::Device device_;
};

/// A part of `gpu-report`, run in a process of its own.
struct GpuStage {
  std::string name, what;  // such as "graphs", and what the stage tests
  int order = 0;
  double limit_s = 60;
  std::function<void(Steps&)> run;
  /// Instead of `run`: the arguments of a command of this program, which writes its files to
  /// `folder`.
  std::function<std::vector<std::string>(c10::Device, const std::string& folder)> command = {};
  /// Called when the time limit has ended the stage: judges the files in `folder`, and returns how
  /// far the stage came if that counts as ok, else "". Unset: reaching the limit is a timeout.
  std::function<std::string(const std::string& folder)> cut = {};
};

/// Registers at static initialisation; returns true.
bool add_gpu_stage(GpuStage stage);
/// All stages, sorted by `order`.
const std::vector<GpuStage>& gpu_stages();
/// Throws Error for an unknown name.
GpuStage find_gpu_stage(const std::string& name);

}  // namespace wide
