#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// A stretch of a device's own time, from one event to another on the current stream.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  virtual void start() = 0;
  virtual double stop_ns() = 0;  // waits for the end
};

/// Work captured once and replayed with one launch, on the memory it was captured with: whoever
/// captures keeps the inputs where they are and copies new ones into them. Does not wait.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void replay() = 0;
};

struct DeviceMemory {
  int64_t free = 0, total = 0;      // of the device
  int64_t allocated = 0, peak = 0;  // of this process, `peak` since the last reset
};

using Work = std::function<void()>;

/// What the engine asks of a kind of device besides running operators. Compiled in with the
/// device's own headers and registered from there; without it such a device is unavailable.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual int count() const = 0;  // devices usable now; 0 without a driver
  virtual void synchronize(c10::Device device) = 0;
  virtual std::unique_ptr<DeviceTimer> timer(c10::Device device) = 0;
  /// A call that runs the works round-robin over `streams` streams, ordered after what was
  /// submitted before it and before what is submitted after it. Does not wait.
  virtual Work on_streams(c10::Device device, std::vector<Work> works, int streams) = 0;
  /// Runs `work` a few times to warm it up, then captures it. Random operators in it draw anew at
  /// every replay. Throws what `work` throws.
  virtual std::unique_ptr<DeviceGraph> capture(c10::Device device, const Work& work) = 0;
  virtual DeviceMemory memory(c10::Device device) = 0;
  virtual void reset_peak(c10::Device device) = 0;
};

/// Registers at static initialisation, so without a call to the device; returns true.
bool add_device_runtime(c10::DeviceType type, std::unique_ptr<DeviceRuntime> runtime);
/// Null for the CPU and for kinds that are not compiled in.
DeviceRuntime* device_runtime(c10::DeviceType type);
/// Why `device` cannot be used here, or nullopt.
std::optional<std::string> unavailable(c10::Device device);
/// Waits for what was submitted to `device`; nothing to do on the CPU.
void synchronize(c10::Device device);

/// The most bytes that tensors made during `work` took at once. On the CPU it sees the threads
/// that share the caller's at::ThreadLocalState, which is those the engine starts.
int64_t count_peak_bytes(c10::Device device, const Work& work);

}  // namespace wide
