#include "app/worker/protocol.h"

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "data/machine/peaks.h"
#include "data/tensors.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json request_json(const PlannedCase& planned, const SweepSettings& settings) {
  Json c;
  c["target"] = planned.target->name;
  c["kind"] = to_string(planned.target->kind);
  c["shape"] = planned.shape.axes();
  c["n"] = planned.n;
  c["dtype"] = short_name(planned.dtype);
  c["device"] = planned.device.str();
  c["mode"] = to_string(planned.mode);
  c["phase"] = planned.phase;
  c["strategies"] = planned.strategies;
  Json s;
  s["budget_s"] = settings.budget_s;
  s["seed"] = settings.seed;
  s["threads"] = settings.threads;
  s["baselines"] = settings.baselines;
  s["baselines_off"] = settings.baselines_off;
  s["forced"] = settings.forced;
  s["min_samples"] = settings.min_samples;
  s["peer"] = settings.peer;
  s["peer_lacks"] = settings.peer_lacks;
  s["tf32"] = settings.tf32;
  s["tuning_db"] = settings.tuning_db;
  if (settings.peaks) {
    s["peaks"] = peaks_json(*settings.peaks);
    s["peaks_device"] = settings.peaks_device.str();
  }
  return {{"case", std::move(c)}, {"settings", std::move(s)}};
}

PlannedCase planned_from_json(const Json& request) {
  const Json& c = request.at("case");
  PlannedCase planned;
  for (const Target* t : targets())
    if (t->name == c.at("target") && to_string(t->kind) == c.at("kind")) planned.target = t;
  if (!planned.target)
    fail("[worker] target: got {}, expected a registered one; try the same program for both",
         c.at("target").dump());
  for (const auto& [axis, size] : c.at("shape").get<std::vector<std::pair<std::string, int64_t>>>())
    planned.shape.set(axis, size);
  c.at("n").get_to(planned.n);
  planned.dtype = parse_float_dtype(c.at("dtype"));
  planned.device = parse_device(c.at("device"));
  planned.mode = parse_mode(c.at("mode"));
  c.at("phase").get_to(planned.phase);
  c.at("strategies").get_to(planned.strategies);
  return planned;
}

SweepSettings settings_from_json(const Json& request) {
  const Json& s = request.at("settings");
  SweepSettings settings;
  s.at("budget_s").get_to(settings.budget_s);
  s.at("seed").get_to(settings.seed);
  s.at("threads").get_to(settings.threads);
  s.at("baselines").get_to(settings.baselines);
  s.at("baselines_off").get_to(settings.baselines_off);
  s.at("forced").get_to(settings.forced);
  s.at("min_samples").get_to(settings.min_samples);
  s.at("peer").get_to(settings.peer);
  s.at("peer_lacks").get_to(settings.peer_lacks);
  s.at("tf32").get_to(settings.tf32);
  s.at("tuning_db").get_to(settings.tuning_db);
  if (s.contains("peaks")) {
    settings.peaks = peaks_of(s.at("peaks"));
    settings.peaks_device = c10::Device(s.at("peaks_device").get<std::string>());
  }
  return settings;
}

}  // namespace wide
