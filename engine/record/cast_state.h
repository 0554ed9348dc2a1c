#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>

namespace wide {

/// What decides in which dtypes code runs besides its tensors: autocast of this thread, on the CPU
/// and on GPUs, and the default dtype.
struct CastState {
  static constexpr std::array kDevices{c10::kCPU, c10::kCUDA};

  static CastState current();
  bool operator==(const CastState&) const = default;

  std::array<bool, kDevices.size()> enabled{};
  std::array<c10::ScalarType, kDevices.size()> dtype{};
  c10::ScalarType default_dtype = c10::kFloat;
};

/// Code runs under `state` while this exists: what is recorded later than the rest of a network, as
/// its backward pass, has to see the same casts.
class CastStateGuard {
 public:
  explicit CastStateGuard(const CastState& state);
  ~CastStateGuard();
  CastStateGuard(const CastStateGuard&) = delete;
  CastStateGuard& operator=(const CastStateGuard&) = delete;

 private:
  const CastState before_;
  const bool cache_;
};

}  // namespace wide
