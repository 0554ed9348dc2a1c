#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace wide {

/// N of a case at most: more fit on no machine, and sizes in bytes could overflow.
inline constexpr int64_t kMostModels = 1'000'000'000;

/// A network of the user's own as a target: a file of torch.export or TorchScript, checkpoints, one
/// per model, and a safetensors file of inputs, as `fuse` takes them. Paths are absolute.
struct PresetNetwork {
  std::string file;
  std::vector<std::string> weights = {};  // files, folders or patterns; empty: seeded copies
  std::string inputs = {};                // "": the sample that the file holds
  bool operator==(const PresetNetwork&) const = default;
};

/// A sweep as a file: what to run, on the shapes registered with each target.
struct Preset {
  std::string name, description;
  std::vector<std::string> targets;     // names, or primitives, blocks, models
  std::vector<PresetNetwork> networks;  // targets that are files
  std::string sweep = "quick";          // quick, full, ci or suite
  std::vector<int64_t> n;               // empty: each target's own
  /// Target to axis to sizes: replaces an axis of the target's shapes.
  std::map<std::string, std::map<std::string, std::vector<int64_t>>> axes;
  std::vector<std::string> modes = {"default"}, phases = {"forward"}, dtypes = {"f32"},
                           devices = {"cpu"};
  std::vector<std::string> baselines;   // empty: all
  std::vector<std::string> strategies;  // of targets that have them; empty: all
  int64_t min_samples = 10;             // of a timing, whatever its budget
  double budget_s = 1.5;                // of timing, per contender
  /// Target to N to speedup as published elsewhere, from the CSV file (target,n,speedup) of the
  /// same name beside the preset. Such a preset runs the Ns that have a figure.
  std::map<std::string, std::map<int64_t, double>> published;
  std::string published_note;  // the comment at the top of that file: where its figures come from
};

/// The baselines that a sweep may have: `optimised` of targets with such a form, and those of
/// engine/measure/baselines.h.
const std::vector<std::string>& baseline_names();

/// Reads a preset from its text; `path` is for messages and gives the name if the text has none.
/// Throws Error naming unknown or duplicate keys and values of the wrong kind.
Preset parse_preset(const std::string& text, const std::string& path);
/// Reads a preset; throws Error as `parse_preset` does.
Preset load_preset(const std::string& path);
/// Makes a file of presets/ part of the program; called by a source file that the build generates.
bool add_preset_file(const char* name, const char* text);
/// A preset of the program by name, or a file.
Preset find_preset(const std::string& name_or_path);
/// The names of the presets that come with the program, sorted; without reading the presets.
std::vector<std::string> preset_names();
/// The presets that come with the program, sorted by name.
std::vector<Preset> presets();

}  // namespace wide
