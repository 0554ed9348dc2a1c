#include "engine/record/process_switch.h"

#include <ATen/Context.h>
#include <ATen/functorch/BatchedFallback.h>

#include <mutex>

namespace wide {

namespace {

class Switch {
 public:
  Switch(bool (*get)(), void (*set)(bool)) : get_(get), set_(set) {}
  void hold_off() {
    const std::lock_guard lock(mutex_);
    if (holders_++ > 0) return;
    before_ = get_();
    set_(false);
  }
  void release() {
    const std::lock_guard lock(mutex_);
    if (--holders_ == 0) set_(before_);
  }

 private:
  bool (*get_)();
  void (*set_)(bool);
  std::mutex mutex_;
  int holders_ = 0;
  bool before_ = true;
};

Switch& one_dnn() {
  static Switch s([] { return at::globalContext().userEnabledMkldnn(); },
                  [](bool on) { at::globalContext().setUserEnabledMkldnn(on); });
  return s;
}

Switch& cudnn() {
  static Switch s([] { return at::globalContext().userEnabledCuDNN(); },
                  [](bool on) { at::globalContext().setUserEnabledCuDNN(on); });
  return s;
}

Switch& vmap_fallback() {
  static Switch s(at::functorch::isVmapFallbackEnabled, at::functorch::setVmapFallbackEnabled);
  return s;
}

}  // namespace

OneDnnOff::OneDnnOff() { one_dnn().hold_off(); }
OneDnnOff::~OneDnnOff() { one_dnn().release(); }
CudnnOff::CudnnOff() { cudnn().hold_off(); }
CudnnOff::~CudnnOff() { cudnn().release(); }
VmapFallbackOff::VmapFallbackOff() { vmap_fallback().hold_off(); }
VmapFallbackOff::~VmapFallbackOff() { vmap_fallback().release(); }

}  // namespace wide
