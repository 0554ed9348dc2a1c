#pragma once
#include "engine/measure/baselines.h"
#include "engine/measure/timeline.h"

namespace wide {

/// Times the loop over n separate models for a timeline: when each model ran, and each operator
/// that the model itself called. `threads`: how many an operator may use.
TimelineCall loop_timeline(const Baseline& loop, int64_t n, int threads, c10::Device device);

}  // namespace wide
