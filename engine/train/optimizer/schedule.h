#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// A factor of all models' learning rates by step, counted from 0. As in torch.optim.lr_scheduler,
/// stepped after every step:
///   constant   1
///   cosine     from 1 to `floor` over the steps: CosineAnnealingLR with eta_min = floor * lr
///   linear     from 1 to 0: LinearLR(1, 0)
///   step       gamma^(t / every): StepLR
///   onecycle   OneCycleLR with max_lr = lr and its defaults, but for the momentum, which stays
/// With `warmup` the factor rises linearly over this many steps, from 1/warmup, and the schedule
/// covers the remaining steps. onecycle has its own warm-up.
struct Schedule {
  std::string name = "constant";
  double floor = 0;   // for cosine: the factor at the end, 0 to 1
  int64_t every = 0;  // for step: steps between two reductions
  double gamma = 1;   // for step: the factor of each reduction
  int64_t warmup = 0;
  int64_t steps = 0;  // of the whole run; cosine, linear and onecycle need it

  /// The factor at step `t`; from t = `steps` on, cosine stays at `floor`, linear
  /// at 0 and onecycle at its last factor.
  double factor(int64_t t) const;
  /// Throws Error: unknown name, a number out of its range, warmup not below the steps.
  void check() const;
};

/// Parses "constant", "cosine:0.1", "linear", "step:EVERY,GAMMA" or "onecycle"; `steps`: of the
/// whole run. Throws Error as `check` does.
Schedule parse_schedule(const std::string& text, int64_t warmup, int64_t steps);

}  // namespace wide
