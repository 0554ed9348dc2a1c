#include "data/machine/gpu.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace wide {
namespace {

constexpr int kOk = 0, kTooSmall = 7;  // NVML_SUCCESS, NVML_ERROR_INSUFFICIENT_SIZE
constexpr int kGraphicsClock = 0, kMemoryClock = 2, kTemperature = 0;
constexpr unsigned kTextSize = 96;

/// Calls the library's functions by name; calls of missing functions fail.
class Driver {
 public:
  explicit Driver(const DriverSymbols& symbols) : symbols_(symbols) {
    begun_ = call("nvmlInit_v2") == kOk;
  }
  ~Driver() {
    if (begun_) call("nvmlShutdown");
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  bool begun() const { return begun_; }

  template <class... Args>
  int call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(symbols_(name));
    return function ? function(args...) : -1;
  }
  /// A number that the driver writes, times `unit`; 0 if unknown.
  template <class... Args>
  double number(const char* name, double unit, Args... args) const {
    unsigned value = 0;
    return call(name, args..., &value) == kOk ? unit * value : 0;
  }

 private:
  const DriverSymbols& symbols_;
  bool begun_ = false;
};

std::string compute_mode(int mode) {
  const char* names[] = {"default", "exclusive thread", "prohibited", "exclusive process"};
  return mode >= 0 && mode < 4 ? names[mode] : "";
}

/// Why clocks are throttled; idling does not count.
std::string throttle_text(unsigned long long reasons) {
  const std::pair<unsigned long long, const char*> bits[] = {
      {0x2, "clocks set"},   {0x4, "power cap"},     {0x8, "hardware"},
      {0x20, "temperature"}, {0x40, "hot hardware"}, {0x80, "power brake"}};
  std::string text;
  for (const auto& [bit, name] : bits)
    if (reasons & bit) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace

DriverSymbols driver_symbols() {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  return [](const char* name) { return library ? dlsym(library, name) : nullptr; };
}

GpuState read_gpu(const DeviceFacts& facts, const DriverSymbols& symbols) {
  GpuState state;
  state.capability = facts.capability;
  const Driver driver(symbols);
  if (!driver.begun()) return state;
  char version[kTextSize] = {};
  if (driver.call("nvmlSystemGetDriverVersion", &version[0], kTextSize) == kOk)
    state.driver = version;
  void* device = nullptr;
  if (driver.call("nvmlDeviceGetHandleByPciBusId_v2", facts.bus.c_str(), &device) != kOk)
    return state;
  state.mhz = driver.number("nvmlDeviceGetClockInfo", 1, device, kGraphicsClock);
  state.max_mhz = driver.number("nvmlDeviceGetMaxClockInfo", 1, device, kGraphicsClock);
  state.memory_mhz = driver.number("nvmlDeviceGetClockInfo", 1, device, kMemoryClock);
  state.power_limit_w = driver.number("nvmlDeviceGetEnforcedPowerLimit", 1e-3, device);
  state.temperature_c = driver.number("nvmlDeviceGetTemperature", 1, device, kTemperature);
  int mode = -1;
  if (driver.call("nvmlDeviceGetComputeMode", device, &mode) == kOk)
    state.compute_mode = compute_mode(mode);
  unsigned long long reasons = 0;
  if (driver.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == kOk)
    state.throttled = throttle_text(reasons);
  unsigned count = 0;
  void* none = nullptr;
  const int asked = driver.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, none);
  if (asked == kOk || asked == kTooSmall) state.processes = count;
  return state;
}

void add_gpu(Environment& environment, c10::Device device, const DriverSymbols& symbols) {
  DeviceRuntime* runtime = device_runtime(device.type());
  if (!runtime || runtime->count() == 0) return;
  const DeviceFacts facts = runtime->facts(device);
  environment.gpu = facts.name;
  environment.gpu_state = read_gpu(facts, symbols);
  environment.gpu_state->tf32 = tf32_allowed() ? "on" : "off";
}

int64_t others_on(c10::Device device, const DriverSymbols& symbols) {
  DeviceRuntime* runtime = device_runtime(device.type());
  if (device.is_cpu() || !runtime || runtime->count() == 0) return 0;
  return std::max<int64_t>(0, read_gpu(runtime->facts(device), symbols).processes - 1);
}

std::string device_key(c10::Device device) {
  DeviceRuntime* runtime = device_runtime(device.type());
  if (!runtime || runtime->count() == 0) return device.str();
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(device.str());
  if (fresh) {
    const DeviceFacts facts = runtime->facts(device);
    at->second = fmt::format("{} ({}, driver {}", device.str(), facts.name, read_gpu(facts).driver);
  }
  return at->second + (tf32_allowed() ? ", tf32)" : ")");
}

void allow_tf32(bool on) {
  const auto precision = on ? at::Float32Precision::TF32 : at::Float32Precision::IEEE;
  for (const at::Float32Op op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN})
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, op, precision);
}

bool tf32_allowed() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}

}  // namespace wide
