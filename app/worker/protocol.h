#pragma once
#include <nlohmann/json_fwd.hpp>

#include "app/sweep/case/run.h"

// What the sweep and its worker process say to each other: one JSON object a line.
//   to the worker:   {"case": {...}, "settings": {...}}
//   from the worker: {"ready": pid} once, then for every case any number of
//     {"memory": [needed, available]}, {"stage": what, "name": trial}, {"time": [names]}
//   and at last {"result": case, "resident": bytes} or {"error": line, "exit_code": code}.
// The host replaces a worker that has become too large (`resident`: its memory in use).
// {"peaks_of": device, "threads": count} is answered by {"peaks": ...}.
namespace wide {

nlohmann::ordered_json request_json(const SweepCase& planned, const SweepSettings& settings);
/// Throws Error for a target that is not registered here.
SweepCase sweep_case_from_json(const nlohmann::ordered_json& request);
SweepSettings settings_from_json(const nlohmann::ordered_json& request);

/// File descriptors that the worker starts with, besides the standard ones: the pipe for its
/// answers, and the shared page of its heartbeat. While calls are timed that page says whose call
/// runs, since a message for each call would disturb the timing.
inline constexpr int kReplyFd = 3, kHeartFd = 4;

}  // namespace wide
