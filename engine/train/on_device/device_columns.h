#pragma once
#include <map>

#include "engine/train/columns.h"

namespace wide {

/// Batches for a device. Data with row indices are copied to the device once, if they fit; then a
/// batch copies only its indices. Other columns are gathered on the host.
class DeviceColumns {
 public:
  explicit DeviceColumns(c10::Device device) : device_(device) {}

  /// Fills `slot`, `[R, B, ...]` or `[B, ...]` if shared, with the running models' batches.
  void fill(const BatchColumn& column, const std::vector<int64_t>& running, const Tensor& slot);
  int64_t bytes() const;

 private:
  struct Held {
    Tensor host, device;  // device undefined: it does not fit
    int64_t version = 0;
  };
  Tensor held(const Tensor& values);

  c10::Device device_;
  std::map<const void*, Held> held_;  // by address on the host
};

}  // namespace wide
