#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace wide {

/// A sweep as a file: what to run, over the shapes that live with each target.
struct Preset {
  std::string name, description;
  std::vector<std::string> targets;  // names, or primitives, blocks, models
  std::string sweep = "quick";       // quick, full or ci
  std::vector<int64_t> n;            // empty: each target's own
  /// Target to axis to sizes: replaces an axis of the target's shapes.
  std::map<std::string, std::map<std::string, std::vector<int64_t>>> axes;
  std::vector<std::string> modes = {"eager"}, phases = {"forward"}, dtypes = {"f32"},
                           devices = {"cpu"};
  std::vector<std::string> baselines;  // empty: all
  double budget_s = 1.5;               // of timing, per contender
};

/// Reads a preset; unknown keys and values of the wrong kind are refused by name.
Preset load_preset(const std::string& path);
/// A preset of the program by name, or a file.
Preset find_preset(const std::string& name_or_path);
/// The presets that come with the program, sorted by name.
std::vector<Preset> presets();

}  // namespace wide
