#pragma once
#include <map>

#include "engine/train/columns.h"

namespace wide {

/// Batches for a device. Data whose rows are taken by index lie there once, where there is room for
/// them, and only the indices are copied with a batch; other columns are taken on the host.
class DeviceColumns {
 public:
  explicit DeviceColumns(c10::Device device) : device_(device) {}

  /// Fills `slot`, `[R, B, ...]` or `[B, ...]` where shared, with the running models' batches.
  void fill(const BatchColumn& column, const std::vector<int64_t>& running, const Tensor& slot);
  int64_t bytes() const;

 private:
  struct Held {
    Tensor host, device;  // device undefined: no room
    int64_t version = 0;
  };
  Tensor held(const Tensor& values);

  c10::Device device_;
  std::map<const void*, Held> held_;  // by the host's address
};

}  // namespace wide
