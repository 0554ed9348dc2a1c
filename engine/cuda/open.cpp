#include "engine/cuda/open.h"

#include <dlfcn.h>
#include <unistd.h>

#include <fstream>

#include "engine/error.h"

namespace wide {
namespace {

/// The runtime for CUDA if its plugin cannot be loaded; knows the reason.
class NoCuda : public DeviceRuntime {
 public:
  explicit NoCuda(std::string why) : why_(std::move(why)) {}
  int count() const override { return 0; }
  std::string why_none() const override { return why_; }
  void synchronize(c10::Device) override { none(); }
  std::unique_ptr<DeviceTimer> timer(c10::Device) override { none(); }
  Work on_streams(c10::Device, std::vector<Work>, int) override { none(); }
  std::unique_ptr<DeviceGraph> graph(c10::Device) override { none(); }
  DeviceMemory memory(c10::Device) override { none(); }
  void reset_peak(c10::Device) override { none(); }
  void release_memory(c10::Device) override { none(); }
  DeviceFacts facts(c10::Device) override { none(); }

 private:
  [[noreturn]] void none() const {
    fail("[device] cuda: got none ({}), expected one; try --device cpu", why_);
  }

  std::string why_;
};

std::string why_not_opened() {
  const char* why = dlerror();
  return why ? why : "unknown";
}

/// Opens libraries for the life of the process. Why there is no CUDA, or "".
std::string try_cuda(const std::filesystem::path& folder) {
  const std::filesystem::path plugin = folder / "workbench_cuda.so";
  if (access(plugin.c_str(), R_OK) != 0) {
    std::string why;
    std::getline(std::ifstream(folder / "workbench_cuda.txt"), why);
    return "the build left CUDA out" + (why.empty() ? "" : ", " + why);
  }
  // LibTorch's CUDA libraries take seconds to load, so the driver is tried first.
  if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return "no driver: " + why_not_opened();
  // Fails with a LibTorch without CUDA.
  void* handle = dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const auto add = handle ? reinterpret_cast<RegisterCuda>(dlsym(handle, kRegisterCuda)) : nullptr;
  if (!add) return why_not_opened();
  add(&add_device_runtime);
  return "";
}

}  // namespace

void open_cuda(const std::filesystem::path& folder) {
  if (device_runtime(c10::kCUDA)) return;
  std::string why = try_cuda(folder);
  if (!device_runtime(c10::kCUDA))
    add_device_runtime(c10::kCUDA, std::make_unique<NoCuda>(std::move(why)));
}

}  // namespace wide
