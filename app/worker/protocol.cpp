#include "app/worker/protocol.h"

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/sweep/user_network.h"
#include "data/tensors.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json request_json(const SweepCase& planned, const SweepSettings& settings) {
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
  if (const PresetNetwork* own = user_network(*planned.target)) c["network"] = nlohmann::json(*own);
  return {{"case", std::move(c)}, {"settings", sent_settings(settings)}};
}

SweepCase sweep_case_from_json(const Json& request) {
  const Json& c = request.at("case");
  SweepCase planned;
  if (c.contains("network"))
    planned.target = &user_target(nlohmann::json(c.at("network")).get<PresetNetwork>());
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
  SweepSettings settings;
  read_settings(request.at("settings").get<SettingTexts>(), &settings);
  return settings;
}

}  // namespace wide
