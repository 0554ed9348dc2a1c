#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

inline constexpr const char* kBaselinePrefix = "baseline/";

/// Receives the progress of a running case, so that a watching process knows which trial to blame
/// for a crash or hang. Names are those of trials ("grouped") or baselines ("baseline/loop"); "" is
/// the whole case.
class Stages {
 public:
  virtual ~Stages() = default;
  /// `what`: case, prepare, baseline, check.
  virtual void begin(const std::string& /*what*/, const std::string& /*name*/) {}
  /// Timing of the contenders `names` begins; from now on `call` says whose call is running.
  virtual void time(const std::vector<std::string>& /*names*/) {}
  /// Before every call of contender `index`. Must cost next to nothing.
  virtual void call(size_t /*index*/) {}
  /// The estimated bytes that the case needs, and the available ones.
  virtual void memory(int64_t /*needed*/, int64_t /*available*/) {}
};

}  // namespace wide
