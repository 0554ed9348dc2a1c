#include "engine/device.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/Logging.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "engine/error.h"

namespace wide {
namespace {

using Runtimes = std::map<c10::DeviceType, std::unique_ptr<DeviceRuntime>>;

// A function's static: registration runs before main, in no particular order.
Runtimes& runtimes() {
  static Runtimes instance;
  return instance;
}

// Python registers CUDA's while other threads compute.
std::mutex& of_runtimes() {
  static std::mutex instance;
  return instance;
}

// Is told of every CPU allocation in its scope. Freeing older memory is reported with size 0.
class AllocationCounter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device device) override {
    if (!device.is_cpu()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    current_ += bytes;
    peak_ = std::max(peak_, current_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  std::mutex mutex_;
  int64_t current_ = 0, peak_ = 0;
};

// The allocator warns when memory from before the counting is freed, which is expected here: a call
// frees the results of the one before.
class NoWarnings {
 public:
  NoWarnings() { FLAGS_caffe2_log_level = std::max(before_, 2); }
  ~NoWarnings() { FLAGS_caffe2_log_level = before_; }
  NoWarnings(const NoWarnings&) = delete;
  NoWarnings& operator=(const NoWarnings&) = delete;

 private:
  int before_ = FLAGS_caffe2_log_level;
};

constexpr int kWarmupCalls = 3;

/// The default ones of the CPU and of `device`.
std::vector<at::Generator> generators_of(c10::Device device) {
  std::vector<at::Generator> all{at::globalContext().defaultGenerator(c10::kCPU)};
  if (!device.is_cpu()) all.push_back(at::globalContext().defaultGenerator(device));
  return all;
}

}  // namespace

bool add_device_runtime(c10::DeviceType type, std::unique_ptr<DeviceRuntime> runtime) {
  const std::lock_guard lock(of_runtimes());
  runtimes()[type] = std::move(runtime);
  return true;
}

DeviceRuntime* device_runtime(c10::DeviceType type) {
  const std::lock_guard lock(of_runtimes());
  const auto found = runtimes().find(type);
  return found == runtimes().end() ? nullptr : found->second.get();
}

std::optional<std::string> unavailable(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  const std::string kind = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  DeviceRuntime* runtime = device_runtime(device.type());
  if (!runtime)
    return fmt::format(
        "[device] {}: got a build without {}, expected one compiled with its headers; try --device "
        "cpu",
        device.str(), kind);
  const int count = runtime->count();
  if (count == 0) {
    const std::string why = runtime->why_none();
    return fmt::format(
        "[device] {}: got no {} device with a working driver{}, expected one; try --device cpu",
        device.str(), kind, why.empty() ? "" : " (" + why + ")");
  }
  if (device.has_index() && device.index() >= count)
    return fmt::format("[device] {}: got index {}, expected below {}; try {}:0", device.str(),
                       static_cast<int>(device.index()), count, kind);
  return std::nullopt;
}

std::string why_none(c10::DeviceType type) {
  DeviceRuntime* runtime = device_runtime(type);
  if (!runtime) return "this program has no code for it";
  if (runtime->count() > 0) return "";
  const std::string why = runtime->why_none();
  return why.empty() ? "the driver has none" : why;
}

void synchronize(c10::Device device) {
  if (DeviceRuntime* runtime = device_runtime(device.type())) runtime->synchronize(device);
}

void seed_random(uint64_t seed, c10::Device device) {
  for (at::Generator generator : generators_of(device)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

KeptRandomState::KeptRandomState(c10::Device device) {
  for (const at::Generator& generator : generators_of(device))
    states_.emplace_back(generator, generator.get_state());
}

KeptRandomState::~KeptRandomState() {
  for (auto& [generator, state] : states_) {
    try {
      generator.set_state(state);
    } catch (const std::exception&) {  // of a device that broke meanwhile
    }
  }
}

std::unique_ptr<DeviceGraph> capture(c10::Device device, const Work& work) {
  DeviceRuntime* of = device_runtime(device.type());
  if (!of)
    fail("[graph] device: got {}, expected one whose work can be captured; try cuda", device.str());
  DeviceRuntime& runtime = *of;
  runtime.synchronize(device);
  std::unique_ptr<DeviceGraph> graph = runtime.graph(device);
  graph->on_stream([&] {
    {
      const KeptRandomState kept(device);
      for (int i = 0; i < kWarmupCalls; ++i) work();
      runtime.synchronize(device);
    }
    try {
      graph->begin();
      work();
      graph->end();
    } catch (const c10::OutOfMemoryError&) {
      graph->abandon();
      throw;
    } catch (const c10::Error& refusal) {
      graph->abandon();
      expect_working(device);
      throw NotCaptured(refusal);
    } catch (...) {
      graph->abandon();
      throw;
    }
  });
  runtime.synchronize(device);
  return graph;
}

NotCaptured::NotCaptured(const c10::Error& refusal)
    : c10::Error(fmt::format("[graph] capture: got {}, expected operators that never wait for "
                             "the GPU on the CPU; try mode default",
                             first_line(refusal)),
                 nullptr) {}

std::optional<DeviceMemory> device_memory(c10::Device device) {
  DeviceRuntime* runtime = device_runtime(device.type());
  return runtime ? std::optional(runtime->memory(device)) : std::nullopt;
}

void release_memory(c10::Device device) {
  if (DeviceRuntime* runtime = device_runtime(device.type())) runtime->release_memory(device);
}

BrokenDevice::BrokenDevice(c10::Device device, const std::string& why)
    : Error(fmt::format("[device] {}: got a persistent error ({}), expected a working "
                        "device; try again in a new process",
                        device.str(), why),
            5) {}

void expect_working(c10::Device device) {
  DeviceRuntime* runtime = device_runtime(device.type());
  if (!runtime) return;
  try {
    runtime->synchronize(device);
  } catch (const std::exception& thrown) {
    throw BrokenDevice(device, first_line(thrown));
  }
}

int64_t count_peak_bytes(c10::Device device, const Work& work) {
  if (DeviceRuntime* runtime = device_runtime(device.type())) {
    runtime->synchronize(device);
    runtime->reset_peak(device);
    const int64_t before = runtime->memory(device).allocated;
    work();
    runtime->synchronize(device);
    return std::max<int64_t>(0, runtime->memory(device).peak - before);
  }
  const auto counter = std::make_shared<AllocationCounter>();
  const NoWarnings no_warnings;
  // Callbacks of a running profiler would use the counter as the profiler's own state.
  const at::DisableRecordFunctionGuard no_profiler;
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  work();
  return counter->peak();
}

}  // namespace wide
