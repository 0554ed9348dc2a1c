#include "app/sweep/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/sweep/user_network.h"
#include "data/machine/peaks.h"
#include "data/text.h"

namespace wide {
namespace {

/// Where a setting is kept: sent to workers, stored with the sweep, or both.
enum Keeper { kStore = 1, kWorker = 2, kBoth = 3 };

struct Setting {
  const char* name;
  Keeper kept_by;
  std::string (*text)(const SweepSettings& of);
  void (*read)(const std::string& text, SweepSettings* into);
};

using Of = const SweepSettings&;
using Text = const std::string&;
using Into = SweepSettings*;

std::string joined(const std::map<std::string, std::string>& forced) {
  std::vector<std::string> all;
  for (const auto& [primitive, strategy] : forced) all.push_back(primitive + "=" + strategy);
  return fmt::format("{}", fmt::join(all, ","));
}

/// A setting that sweeps stored by older versions lack; stored only if it has a value.
constexpr const char* kNetworks = "networks";

/// A new setting that workers or a resumed sweep need is a row here.
constexpr Setting kSettings[] = {
    {"--budget", kBoth, [](Of s) { return fmt::format("{}", s.budget_s); },
     [](Text t, Into s) { s->budget_s = std::stod(t); }},
    {"--seed", kBoth, [](Of s) { return std::to_string(s.seed); },
     [](Text t, Into s) { s->seed = std::stoull(t); }},
    // 0 if the user gave no number: each machine then uses all of its cores.
    {"--threads", kStore, [](Of s) { return std::to_string(s.all_cores ? 0 : s.threads); },
     [](Text t, Into s) {
       s->threads = std::stoi(t);
       s->all_cores = s->threads == 0;
       if (s->all_cores) s->threads = set_threads(0);
     }},
    {"threads", kWorker, [](Of s) { return std::to_string(s.threads); },
     [](Text t, Into s) { s->threads = std::stoi(t); }},
    {"--tf32", kBoth, [](Of s) { return std::string(s.tf32 ? "on" : "off"); },
     [](Text t, Into s) { s->tf32 = t == "on"; }},
    {"--strategy", kBoth, [](Of s) { return joined(s.forced); },
     [](Text t, Into s) { s->forced = t.empty() ? s->forced : parse_strategies({t}); }},
    {"baselines", kBoth, [](Of s) { return fmt::format("{}", fmt::join(s.baselines, ",")); },
     [](Text t, Into s) { s->baselines = split(t); }},
    {"baselines off", kWorker,
     [](Of s) { return fmt::format("{}", fmt::join(s.baselines_off, ",")); },
     [](Text t, Into s) {
       for (const std::string& name : split(t)) s->baselines_off.insert(name);
     }},
    {"min_samples", kBoth, [](Of s) { return std::to_string(s.min_samples); },
     [](Text t, Into s) { s->min_samples = std::stoi(t); }},
    {"--peer", kBoth, [](Of s) { return s.peer; }, [](Text t, Into s) { s->peer = t; }},
    {kNetworks, kStore,
     [](Of s) { return s.networks.empty() ? "" : nlohmann::json(s.networks).dump(); },
     [](Text t, Into s) { nlohmann::json::parse(t).get_to(s->networks); }},
    {"peer lacks", kWorker, [](Of s) { return s.peer_lacks; },
     [](Text t, Into s) { s->peer_lacks = t; }},
    {"tuning", kWorker, [](Of s) { return s.tuning_db; }, [](Text t, Into s) { s->tuning_db = t; }},
    {"peaks", kWorker, [](Of s) { return s.peaks ? peaks_json(*s.peaks).dump() : ""; },
     [](Text t, Into s) {
       if (!t.empty()) s->peaks = peaks_of(nlohmann::json::parse(t));
     }},
    {"peaks of", kWorker, [](Of s) { return s.peaks_device.str(); },
     [](Text t, Into s) { s->peaks_device = c10::Device(t); }}};

SettingTexts texts_of(const SweepSettings& settings, Keeper keeper) {
  SettingTexts texts;
  for (const Setting& s : kSettings)
    if (s.kept_by & keeper && (std::string_view(s.name) != kNetworks || !settings.networks.empty()))
      texts[s.name] = s.text(settings);
  return texts;
}

}  // namespace

SettingTexts stored_settings(const SweepSettings& settings) { return texts_of(settings, kStore); }

SettingTexts sent_settings(const SweepSettings& settings) { return texts_of(settings, kWorker); }

void read_settings(const SettingTexts& texts, SweepSettings* settings) {
  for (const Setting& s : kSettings)
    if (const auto it = texts.find(s.name); it != texts.end()) s.read(it->second, settings);
}

}  // namespace wide
