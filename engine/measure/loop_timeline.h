#pragma once
#include "engine/measure/baselines.h"
#include "engine/measure/timeline.h"

namespace wide {

/// Watches calls of the loop over n separate models: when each model ran, and in it every operator
/// that the model itself called. `threads`: those that an operator may use.
TimelineCall loop_timeline(const Baseline& loop, int64_t n, int threads, c10::Device device);

}  // namespace wide
