#include "engine/cuda/open.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "engine/device.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Stands for CUDA where there is no driver, since LibTorch's CUDA libraries take seconds to load.
class NoDriver : public DeviceRuntime {
 public:
  int count() const override { return 0; }
  void synchronize(c10::Device) override { none(); }
  std::unique_ptr<DeviceTimer> timer(c10::Device) override { none(); }
  Work on_streams(c10::Device, std::vector<Work>, int) override { none(); }
  std::unique_ptr<DeviceGraph> capture(c10::Device, const Work&) override { none(); }
  DeviceMemory memory(c10::Device) override { none(); }
  void reset_peak(c10::Device) override { none(); }

 private:
  [[noreturn]] static void none() {
    fail("[device] cuda: got no driver, expected one; try --device cpu");
  }
};

}  // namespace

void open_cuda() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto plugin = program.parent_path() / "workbench_cuda.so";
  if (device_runtime(c10::kCUDA) || access(plugin.c_str(), R_OK) != 0) return;
  // Its static initialisers register it. A LibTorch without CUDA has not what it needs.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
    dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  else
    add_device_runtime(c10::kCUDA, std::make_unique<NoDriver>());
}

}  // namespace wide
