#pragma once
#include <atomic>
#include <nlohmann/json_fwd.hpp>

#include "app/sweep/run.h"

// What the sweep and its worker process say to each other: one JSON object a line.
//   to the worker:   {"case": {...}, "settings": {...}}
//   from the worker: {"ready": pid} once, then for every case any number of
//     {"memory": [needed, available]}, {"stage": what, "name": trial}, {"time": [names]}
//   and at last {"result": case} or {"error": line, "exit_code": code}.
namespace wide {

nlohmann::ordered_json request_json(const PlannedCase& planned, const SweepSettings& settings);
/// Throws Error for a target that is not registered here.
PlannedCase planned_from_json(const nlohmann::ordered_json& request);
SweepSettings settings_from_json(const nlohmann::ordered_json& request);

/// A page both processes see: whose call is being timed. A line per call would disturb the timing.
struct Beacon {
  std::atomic<uint32_t> contender;
  std::atomic<uint32_t> calls;  // changes with every call
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// File descriptors the worker starts with, besides the standard ones.
inline constexpr int kReplyFd = 3, kBeaconFd = 4;

}  // namespace wide
