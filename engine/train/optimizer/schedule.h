#pragma once
#include <cstdint>
#include <string>

namespace wide {

/// A factor of every model's learning rate by the step, counted from 0. As torch.optim.lr_scheduler
/// has them, stepped after every step:
///   constant   1
///   cosine     from 1 to `floor` over the steps: CosineAnnealingLR with eta_min = floor * lr
///   linear     from 1 to 0: LinearLR(1, 0)
///   step       gamma^(t / every): StepLR
///   onecycle   OneCycleLR with max_lr = lr and its defaults, but for the momentum, which stays
/// With `warmup` the factor rises evenly over so many steps, 1/warmup being the first, and the
/// schedule begins after them, over the steps that are left. onecycle warms up by itself.
struct Schedule {
  std::string name = "constant";
  double floor = 0;   // of cosine: the share of lr at the end, 0 to 1
  int64_t every = 0;  // of step: steps between two reductions
  double gamma = 1;   // of step: the factor of each
  int64_t warmup = 0;
  int64_t steps = 0;  // of the whole run; cosine, linear and onecycle need it

  /// At step `t`; beyond the last step what the last one had.
  double factor(int64_t t) const;
  /// Throws Error: unknown name, a number out of its range, warmup not below the steps.
  void check() const;
};

/// "constant", "cosine:0.1", "linear", "step:EVERY,GAMMA", "onecycle"; `steps` of the whole run.
/// Throws Error as `check` does.
Schedule parse_schedule(const std::string& text, int64_t warmup, int64_t steps);

}  // namespace wide
