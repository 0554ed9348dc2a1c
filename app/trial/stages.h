#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

inline constexpr const char* kBaselinePrefix = "baseline/";

/// Where a running case says what it is at, so that whoever watches knows which trial to blame
/// when nothing more is heard. Names are of trials ("grouped") or of baselines
/// ("baseline/loop"); "" stands for the whole case.
class Stages {
 public:
  virtual ~Stages() = default;
  /// `what`: case, prepare, baseline, check.
  virtual void begin(const std::string& /*what*/, const std::string& /*name*/) {}
  /// Timing begins; from now on `call` says whose call is running.
  virtual void time(const std::vector<std::string>& /*names*/) {}
  /// Before every call of contender `index`. Must cost next to nothing.
  virtual void call(size_t /*index*/) {}
  /// Bytes the case needs by estimate, and what can be had.
  virtual void memory(int64_t /*needed*/, int64_t /*available*/) {}
};

}  // namespace wide
