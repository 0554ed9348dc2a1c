#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/sweep/part.h"
#include "data/preset.h"
#include "engine/measure/peaks.h"

namespace wide {

struct SweepSettings {
  double budget_s = 1.5;  // per contender
  uint64_t seed = 0;
  int threads = 0;
  bool all_cores = false;                     // no --threads: each machine uses all of its cores
  std::vector<std::string> baselines;         // names; empty: all
  std::set<std::string> baselines_off;        // names of those not to be run
  std::map<std::string, std::string> forced;  // from --strategy
  int min_samples = 10;                       // of a timing, whatever the budget
  std::string peer;                           // a Python with torch, for torch.compile; "": none
  std::string peer_lacks;                     // why that Python cannot compile; "": it can
  double timeout_s = 0;                       // of a trial in a stage; 0: computed from the budget
  std::vector<PresetNetwork> networks;        // users' networks among the targets
  SweepPart part;                             // the share of the cases, with --part
  bool each_machine = false;                  // all cases are repeated on each machine
  bool tf32 = false;                          // on a GPU: float32 products may use TF32
  std::string tuning_db;                      // store of the tuning table; "": in memory only
  std::optional<Peaks> peaks;                 // of `peaks_device`, as the report states them
  c10::Device peaks_device = c10::kCPU;
};

/// Settings as text, by name: that of the option, if there is one.
using SettingTexts = std::map<std::string, std::string>;

/// Settings that are stored with a sweep; `--resume` must be given the same.
SettingTexts stored_settings(const SweepSettings& settings);
/// Settings that a worker gets with every case.
SettingTexts sent_settings(const SweepSettings& settings);
/// Sets the settings that are in `texts`, which come from a store or a sweep; others stay
/// unchanged.
void read_settings(const SettingTexts& texts, SweepSettings* settings);

}  // namespace wide
