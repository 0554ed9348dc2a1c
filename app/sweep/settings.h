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
  bool all_cores = false;                     // nobody asked for a number of threads
  std::vector<std::string> baselines;         // names; empty: all
  std::set<std::string> baselines_off;        // of these: not to be run
  std::map<std::string, std::string> forced;  // from --strategy
  int min_samples = 10;                       // of a timing, whatever the budget
  std::string peer;                           // a Python with torch, for torch.compile; "": none
  std::string peer_lacks;                     // why it cannot compile; "": it can
  double timeout_s = 0;                       // of a trial in a stage; 0: from budget and work
  std::vector<PresetNetwork> networks;        // of the user's own among the targets
  SweepPart part;                             // that the cases are of a plan
  bool each_machine = false;                  // measures all cases
  bool tf32 = false;                          // on a GPU: float32 factors may be rounded
  std::string tuning_db;                      // remembers which strategy won; "": nobody does
  std::optional<Peaks> peaks;                 // those that the report states, of `peaks_device`
  c10::Device peaks_device = c10::kCPU;
};

/// Settings as text, by name: the option that says it, where there is one.
using SettingTexts = std::map<std::string, std::string>;

/// What the store keeps: `--resume` is to be asked the same.
SettingTexts stored_settings(const SweepSettings& settings);
/// What a worker is told with every case.
SettingTexts sent_settings(const SweepSettings& settings);
/// Takes over what stands in `texts`, from a store or from a sweep; the rest stays as it is.
void read_settings(const SettingTexts& texts, SweepSettings* settings);

}  // namespace wide
