#pragma once
#include <nlohmann/json_fwd.hpp>

#include "app/sweep/case/run.h"

// What the sweep and its worker process say to each other: one JSON object a line.
//   to the worker:   {"case": {...}, "settings": {...}}
//   from the worker: {"ready": pid} once, then for every case any number of
//     {"memory": [needed, available]}, {"stage": what, "name": trial}, {"time": [names]}
//   and at last {"result": case} or {"error": line, "exit_code": code}.
// {"peaks_of": device, "threads": count} is answered by {"peaks": ...}.
namespace wide {

nlohmann::ordered_json request_json(const SweepCase& planned, const SweepSettings& settings);
/// Throws Error for a target that is not registered here.
SweepCase sweep_case_from_json(const nlohmann::ordered_json& request);
SweepSettings settings_from_json(const nlohmann::ordered_json& request);

/// File descriptors the worker starts with, besides the standard ones. While calls are timed the
/// page of the heartbeat says whose call runs: a line per call would disturb the timing.
inline constexpr int kReplyFd = 3, kHeartFd = 4;

}  // namespace wide
