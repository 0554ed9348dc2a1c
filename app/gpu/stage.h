#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace wide {

/// A stage at work: its steps go to whoever started the process, one line of JSON each on standard
/// output, before and after, so that a step which takes the process with it can be named.
class Steps {
 public:
  explicit Steps(c10::Device device) : device_(device) {}
  c10::Device device() const { return device_; }

  /// Runs a step. What it throws is its reason, and the next step runs; a broken device ends the
  /// stage. `work` returns what is worth keeping, or null.
  void step(const std::string& name, const std::function<nlohmann::ordered_json()>& work);

 private:
  c10::Device device_;
};

/// A part of the report about a GPU. Each runs in a process of its own.
struct GpuStage {
  std::string name, what;  // "graphs", and what it finds out
  int order = 0;
  double limit_s = 60;
  std::function<void(Steps&)> run;
  /// Instead of `run`: another command of this program, whose files go to `folder`.
  std::function<std::vector<std::string>(c10::Device, const std::string& folder)> command = {};
};

/// Registers at static initialisation; returns true.
bool add_gpu_stage(GpuStage stage);
/// By their order.
const std::vector<GpuStage>& gpu_stages();
/// Throws Error for a name that there is not.
GpuStage find_gpu_stage(const std::string& name);

}  // namespace wide
