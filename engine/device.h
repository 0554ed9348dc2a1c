#pragma once
#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/error.h"
#include "engine/program.h"

namespace wide {

using Work = std::function<void()>;

/// Measures time on a device, between two events on the current stream.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  virtual void start() = 0;
  virtual void stop() = 0;  // does not wait
  virtual double ns() = 0;  // waits for the end
  double stop_ns() {
    stop();
    return ns();
  }
};

/// Work captured once and replayed with one launch, on the memory it was captured with: callers
/// keep the inputs' memory and copy new values into it. Made by `capture`.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Runs `work` on the stream on which the graph is captured.
  virtual void on_stream(const Work& work) = 0;
  /// Work submitted from here to `end` is captured instead of run.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Instead of `end` after an exception: ends the capture in all of the device's libraries.
  virtual void abandon() noexcept = 0;
  /// Launches the graph; does not wait.
  virtual void replay() = 0;
};

/// A device's name and its number in the driver.
struct DeviceFacts {
  std::string name;         // "NVIDIA H100 80GB HBM3"
  std::string bus;          // "00000000:65:00.0"
  std::string capability;   // "9.0"
  int64_t cache_bytes = 0;  // of the cache that all its cores share; 0: not known
};

struct DeviceMemory {
  int64_t free = 0, total = 0;      // of the device
  int64_t allocated = 0, peak = 0;  // of this process, `peak` since the last reset
};

/// Operations on a kind of device that ATen lacks. Implemented where the device's headers are, and
/// registered from there; without it such devices are unavailable.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual int count() const = 0;  // devices usable now; 0 without a driver
  /// Why there are no devices, if known: "no driver (libcuda.so.1: ...)".
  virtual std::string why_none() const { return ""; }
  virtual void synchronize(c10::Device device) = 0;
  virtual std::unique_ptr<DeviceTimer> timer(c10::Device device) = 0;
  /// A call that runs the works round-robin on `streams` streams, after all work submitted before
  /// and before all submitted later. Does not wait.
  virtual Work on_streams(c10::Device device, std::vector<Work> works, int streams) = 0;
  virtual std::unique_ptr<DeviceGraph> graph(c10::Device device) = 0;
  virtual DeviceMemory memory(c10::Device device) = 0;
  virtual void reset_peak(c10::Device device) = 0;
  /// Frees unused memory that the allocator caches.
  virtual void release_memory(c10::Device device) = 0;
  virtual DeviceFacts facts(c10::Device device) = 0;
};

/// Registers without a call to the device, so that it can be done at static initialisation; returns
/// true. nullptr removes the registration.
bool add_device_runtime(c10::DeviceType type, std::unique_ptr<DeviceRuntime> runtime);
/// Null for the CPU and for kinds that are not compiled in.
DeviceRuntime* device_runtime(c10::DeviceType type);
/// Why `device` cannot be used here, or nullopt.
std::optional<std::string> unavailable(c10::Device device);
/// Why there is no device of that kind, in a few words; "" if there is one.
std::string why_none(c10::DeviceType type);
/// Waits for what was submitted to `device`; nothing to do on the CPU.
void synchronize(c10::Device device);

/// Seeds the random numbers of the CPU and of `device`; at::manual_seed would seed all GPUs.
void seed_random(uint64_t seed, c10::Device device);

/// Keeps the random states of the CPU and of `device`, and restores them on destruction.
class KeptRandomState {
 public:
  explicit KeptRandomState(c10::Device device);
  ~KeptRandomState();
  KeptRandomState(const KeptRandomState&) = delete;
  KeptRandomState& operator=(const KeptRandomState&) = delete;

 private:
  std::vector<std::pair<at::Generator, Tensor>> states_;
};

/// Runs `work` a few times, since libraries make handles and choose algorithms in first calls, then
/// captures it. Restores the device's random state; random operators in `work` draw new numbers at
/// every replay. Throws Error for the CPU, NotCaptured for work that runs but cannot be captured,
/// else what `work` throws.
std::unique_ptr<DeviceGraph> capture(c10::Device device, const Work& work);

/// The device runs the work, but refuses to capture it: a call reads on the host, as those of
/// linear algebra do.
class NotCaptured : public c10::Error {
 public:
  explicit NotCaptured(const c10::Error& refusal);
};

/// Memory available on `device`; nullopt for the CPU, whose memory the system reports.
std::optional<DeviceMemory> device_memory(c10::Device device);
/// Frees the memory that the device's allocator caches; does nothing on the CPU.
void release_memory(c10::Device device);

/// The device fails all further calls of this process, as after a failed assertion in a kernel;
/// later work needs another process.
class BrokenDevice : public Error {
 public:
  BrokenDevice(c10::Device device, const std::string& why);
};
/// Throws BrokenDevice if `device` is broken; called after an exception.
void expect_working(c10::Device device);

/// The most bytes that tensors made during `work` took at once. On the CPU it counts the calling
/// thread and those of `call_spread`, but not the other threads of `run_parallel`.
int64_t count_peak_bytes(c10::Device device, const Work& work);

}  // namespace wide
