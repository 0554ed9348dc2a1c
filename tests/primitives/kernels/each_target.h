#pragma once
#include <hwy/targets.h>

#include <string>

namespace wide {

/// Calls `visit(name)` under every instruction set that this CPU has and kernels are compiled for,
/// the scalar one included.
template <class Visit>
void for_each_target(const Visit& visit) {
  struct Restore {
    ~Restore() { force(0); }
    static void force(int64_t target) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
  } const restore;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    Restore::force(target);
    visit(std::string(hwy::TargetName(target)));
  }
}

}  // namespace wide
