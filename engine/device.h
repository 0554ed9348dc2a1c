#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/program.h"

namespace wide {

using Work = std::function<void()>;

/// A stretch of a device's own time, from one event to another on the current stream.
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

/// Work captured once and replayed with one launch, on the memory it was captured with: whoever
/// captures keeps the inputs where they are and copies new ones into them. Made by `capture`.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Runs `work` with that stream current on which the graph is captured.
  virtual void on_stream(const Work& work) = 0;
  /// What is submitted from here to `end` is captured instead of run.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Instead of `end` after an exception: afterwards no part of the device's libraries goes on
  /// believing that a capture is under way.
  virtual void abandon() noexcept = 0;
  /// Does not wait.
  virtual void replay() = 0;
};

/// What a device is called, and by which number its driver knows it.
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

/// What the engine asks of a kind of device besides running operators. Compiled in with the
/// device's own headers and registered from there; without it such a device is unavailable.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual int count() const = 0;  // devices usable now; 0 without a driver
  /// Why there is none, where that is known: "no driver (libcuda.so.1: ...)".
  virtual std::string why_none() const { return ""; }
  virtual void synchronize(c10::Device device) = 0;
  virtual std::unique_ptr<DeviceTimer> timer(c10::Device device) = 0;
  /// A call that runs the works round-robin over `streams` streams, ordered after what was
  /// submitted before it and before what is submitted after it. Does not wait.
  virtual Work on_streams(c10::Device device, std::vector<Work> works, int streams) = 0;
  virtual std::unique_ptr<DeviceGraph> graph(c10::Device device) = 0;
  virtual DeviceMemory memory(c10::Device device) = 0;
  virtual void reset_peak(c10::Device device) = 0;
  /// Gives back memory that nothing uses and that is kept for later.
  virtual void release_memory(c10::Device device) = 0;
  virtual DeviceFacts facts(c10::Device device) = 0;
};

/// Registers at static initialisation, so without a call to the device; returns true. Null takes
/// back what was registered.
bool add_device_runtime(c10::DeviceType type, std::unique_ptr<DeviceRuntime> runtime);
/// Null for the CPU and for kinds that are not compiled in.
DeviceRuntime* device_runtime(c10::DeviceType type);
/// Why `device` cannot be used here, or nullopt.
std::optional<std::string> unavailable(c10::Device device);
/// Why there is no device of that kind, in a few words; "" where there is one.
std::string why_none(c10::DeviceType type);
/// Waits for what was submitted to `device`; nothing to do on the CPU.
void synchronize(c10::Device device);

/// Runs `work` a few times, since libraries make their handles and choose their algorithms in first
/// calls, then captures it. The device's random numbers are afterwards where they were before;
/// random operators in `work` draw anew at every replay. Throws what `work` throws.
std::unique_ptr<DeviceGraph> capture(c10::Device device, const Work& work);

/// Bytes that can be had on `device`; nullopt for the CPU, whose memory the system knows of.
std::optional<DeviceMemory> device_memory(c10::Device device);
/// Gives back what the device's allocator keeps; nothing to do on the CPU.
void release_memory(c10::Device device);

/// A device that answers no call of this process any more, as after an assertion that failed inside
/// a kernel: whatever comes next has to run in another process.
class BrokenDevice : public Error {
 public:
  BrokenDevice(c10::Device device, const std::string& why);
};
/// Throws BrokenDevice where `device` is broken; to be asked after an exception.
void expect_working(c10::Device device);

/// The most bytes that tensors made during `work` took at once. On the CPU it sees the threads
/// that share the caller's at::ThreadLocalState, which is those the engine starts.
int64_t count_peak_bytes(c10::Device device, const Work& work);

}  // namespace wide
