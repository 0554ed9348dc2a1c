#pragma once
#include "engine/device.h"
#include "engine/machine/clock.h"

namespace wide {

/// Times what is submitted to a device: by the device's own events where it has them, else by the
/// steady clock.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) {
    if (DeviceRuntime* runtime = device_runtime(device.type())) timer_ = runtime->timer(device);
  }

  void start() {
    if (timer_)
      timer_->start();
    else
      start_ns_ = now_ns();
  }
  /// Does not wait for the device.
  void stop() {
    if (timer_)
      timer_->stop();
    else
      stop_ns_ = now_ns();
  }
  /// Nanoseconds between the last start and stop; waits until the device has passed the stop.
  double ns() { return timer_ ? timer_->ns() : stop_ns_ - start_ns_; }
  template <class Call>
  double time_ns(const Call& call) {
    start();
    call();
    stop();
    return ns();
  }

 private:
  std::unique_ptr<DeviceTimer> timer_;
  double start_ns_ = 0, stop_ns_ = 0;
};

}  // namespace wide
