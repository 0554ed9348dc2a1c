#include "data/preset.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "data/bytes/mapped_file.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr int kPresetSchema = 2;

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// Files that are part of the program, by name: presets and published figures.
std::map<std::string, std::string>& own_files() {
  static std::map<std::string, std::string> files;
  return files;
}

const char* expected_of(int*) { return "a number"; }
const char* example_of(int*) { return "1"; }
const char* expected_of(int64_t*) { return "a number"; }
const char* example_of(int64_t*) { return "10"; }
const char* expected_of(double*) { return "a number of seconds"; }
const char* example_of(double*) { return "0.5"; }
const char* expected_of(std::string*) { return "text"; }
const char* example_of(std::string*) { return "\"quick\""; }
const char* expected_of(bool*) { return "true or false"; }
const char* example_of(bool*) { return "true"; }
const char* expected_of(std::vector<std::string>*) { return "a list of names"; }
const char* example_of(std::vector<std::string>*) { return "[\"...\"]"; }
const char* expected_of(std::vector<int64_t>*) { return "a list of numbers"; }
const char* example_of(std::vector<int64_t>*) { return "[4, 8, 16]"; }
const char* expected_of(decltype(Preset::axes)*) { return "sizes by axis by target"; }
const char* example_of(decltype(Preset::axes)*) { return R"({"linear": {"D": [256]}})"; }

/// Whether all numbers are whole; the JSON library would truncate others.
bool all_whole(const Json& json) {
  if (json.is_structured()) return std::all_of(json.begin(), json.end(), all_whole);
  return json.is_number_integer();
}
template <class T>
constexpr bool kWantsWhole =
    std::is_same_v<T, int> || std::is_same_v<T, int64_t> ||
    std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, decltype(Preset::axes)>;

class Reader {
 public:
  Reader(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

  template <class T>
  void read(const char* key, T* value) {
    known_.insert(key);
    if (!json_.contains(key)) return;
    const auto refuse = [&] {
      fail("[{}] {}: got {}, expected {}; try {}", file_, key, printable(json_.at(key).dump(), 60),
           expected_of(static_cast<T*>(nullptr)), example_of(static_cast<T*>(nullptr)));
    };
    if (kWantsWhole<T> && !all_whole(json_.at(key))) refuse();
    try {
      json_.at(key).get_to(*value);
    } catch (const Json::exception&) {
      refuse();
    }
  }

  void one_of(const char* key, const std::vector<std::string>& values,
              const std::vector<std::string>& allowed) const {
    for (const std::string& value : values)
      if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
        fail("[{}] {}: got {}, expected {}; try {}", file_, key, printable(value),
             listing(allowed, 9), allowed.front());
  }

  void finish() {
    for (const auto& [key, value] : json_.items())
      if (!known_.count(key)) {
        const std::vector<std::string> keys(known_.begin(), known_.end());
        fail("[{}] key: got {}, expected one of {}; try {}", file_, printable(key),
             listing(keys, 99), nearest(key, keys, "to leave it out"));
      }
  }

 private:
  const Json& json_;
  std::string file_;
  std::set<std::string> known_;
};

/// Reads a preset's published figures: `#` lines with their source, then `target,n,speedup`.
/// `path`: the file beside that of the preset.
void read_published(std::istream& stream, const std::string& path, Preset* preset) {
  const std::string file = printable(path);
  // Nobody named this file: errors say why it is read.
  const std::string why =
      fmt::format("as a .csv beside {} has its published figures",
                  printable(fs::path(path).filename().replace_extension(".json").string()));
  bool head = true;
  int64_t row = 0;
  for (std::string line; std::getline(stream, line);) {
    ++row;
    if (line.empty()) continue;
    if (line[0] == '#') {
      preset->published_note += (preset->published_note.empty() ? "" : " ") +
                                line.substr(std::min<size_t>(2, line.size()));
      continue;
    }
    if (std::exchange(head, false)) {
      if (line != "target,n,speedup")
        fail(
            "[{}] line {}: got {}, expected target,n,speedup, {}; try that as the first line, or "
            "another name for the file",
            file, row, printable(line), why);
      continue;
    }
    const std::vector<std::string> cells = split(line);
    char* n_end = nullptr;
    char* speedup_end = nullptr;
    const bool three = cells.size() == 3;
    const int64_t n = three ? std::strtoll(cells[1].c_str(), &n_end, 10) : 0;
    const double speedup = three ? std::strtod(cells[2].c_str(), &speedup_end) : 0;
    if (!three || *n_end || *speedup_end || n < 1 || !(speedup > 0))
      fail(
          "[{}] line {}: got {}, expected a target, N and a speedup, {}; try linear,32,8.8, or "
          "another name for the file",
          file, row, printable(line), why);
    preset->published[cells[0]][n] = speedup;
  }
}

/// Throws Error unless every value is allowed and given once.
void check(const Reader& reader, const Preset& p, const std::string& file) {
  reader.one_of("sweep", {p.sweep}, {"quick", "full", "ci", "suite"});
  reader.one_of("modes", p.modes, {"eager", "default", "reduce-overhead", "max-autotune"});
  reader.one_of("phases", p.phases, {"forward", "backward", "step"});
  reader.one_of("dtypes", p.dtypes, {"f32", "f64", "f16", "bf16"});
  reader.one_of("baselines", p.baselines, baseline_names());
  const auto some = [&](const char* key, bool empty, const char* example) {
    if (empty) fail("[{}] {}: got none, expected at least one; try {}", file, key, example);
  };
  some("targets", p.targets.empty() && p.networks.empty(), "primitives");
  some("modes", p.modes.empty(), "default");
  some("phases", p.phases.empty(), "forward");
  some("dtypes", p.dtypes.empty(), "f32");
  some("devices", p.devices.empty(), "cpu");
  for (const int64_t n : p.n)
    if (n < 1 || n > kMostModels)
      fail("[{}] n: got {}, expected positive numbers up to {}; try 4", file, n, kMostModels);
  for (const auto& [target, axes] : p.axes)
    for (const auto& [axis, sizes] : axes) {
      const bool good = !sizes.empty() && std::all_of(sizes.begin(), sizes.end(),
                                                      [](int64_t size) { return size >= 0; });
      if (!good)
        fail("[{}] axes: got no good sizes for {}.{}, expected numbers; try [256]", file,
             printable(target), printable(axis));
    }
  if (p.min_samples < 1 || p.min_samples > 1000)
    fail("[{}] min_samples: got {}, expected 1 to 1000; try 10", file, p.min_samples);
  if (!(p.budget_s > 0))
    fail("[{}] budget_s: got {}, expected a positive number; try 0.3", file, p.budget_s);
}

/// Parses a preset; refuses duplicate keys and nesting deeper than a preset's.
Json parse_strictly(const std::string& text, const std::string& file) {
  constexpr int kDeepest = 8;
  std::vector<std::set<std::string>> keys;
  const auto strict = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest)
      fail(
          "[{}] preset: got deeper nesting, expected at most {} levels; try the presets in "
          "presets/",
          file, kDeepest);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get_ref<const std::string&>()).second)
      fail("[{}] {}: got a duplicate key, expected each key once; try to leave one out", file,
           printable(parsed.get_ref<const std::string&>()));
    return true;
  };
  try {
    return Json::parse(text, strict);
  } catch (const Json::exception& e) {
    fail("[{}] preset: got bad JSON ({}), expected an object; try the presets in presets/", file,
         printable(e.what(), 400));
  }
}

/// A target that is a user's network. Relative paths start at the preset's folder.
PresetNetwork network_of(const Json& json, const std::string& file, const fs::path& folder) {
  PresetNetwork network;
  bool trust = false;
  Reader reader(json, file);
  reader.read("file", &network.file);
  reader.read("weights", &network.weights);
  reader.read("inputs", &network.inputs);
  reader.read("trust", &trust);
  reader.finish();
  if (network.file.empty())
    fail("[{}] targets: got a network without a file, expected one; try {{\"file\": \"net.pt2\"}}",
         file);
  if (!trust)
    fail(
        "[{}] {}: got a network from a file, expected \"trust\": true beside it, because a sweep "
        "reads it outside the sandbox; try that if you know who made the file",
        file, printable(network.file));
  const auto absolute = [&](std::string* path) {
    if (!path->empty()) *path = fs::absolute(folder / *path).lexically_normal().string();
  };
  absolute(&network.file);
  absolute(&network.inputs);
  for (std::string& weights : network.weights) absolute(&weights);
  for (const std::string& path : {network.file, network.inputs})
    if (std::error_code error; !path.empty() && !fs::exists(path, error))
      fail(
          "[{}] {}: got no file, expected one that is there; try its path from the preset's folder",
          file, printable(path));
  return network;
}

/// Schema 1 called mode default "eager" and had no other mode on the CPU.
void rename_modes(std::vector<std::string>* modes) {
  std::replace(modes->begin(), modes->end(), std::string("eager"), std::string("default"));
  modes->erase(std::unique(modes->begin(), modes->end()), modes->end());
}

}  // namespace

const std::vector<std::string>& baseline_names() {
  static const std::vector<std::string> names = {"loop",    "threads", "vmap",
                                                 "streams", "graph",   "optimised"};
  return names;
}

Preset parse_preset(const std::string& text, const std::string& path) {
  const std::string file = printable(path);
  Json json = parse_strictly(text, file);
  if (!json.is_object())
    fail("[{}] preset: got {}, expected an object; try the presets in presets/", file,
         json.type_name());

  Preset p;
  if (json.contains("targets") && json["targets"].is_array()) {
    Json names = Json::array();
    for (const Json& target : json["targets"])
      if (target.is_object())
        p.networks.push_back(network_of(target, file, fs::path(path).parent_path()));
      else
        names.push_back(target);
    json["targets"] = std::move(names);
  }
  p.name = fs::path(path).stem().string();
  int schema = 0;
  Reader reader(json, file);
  reader.read("schema", &schema);
  reader.read("name", &p.name);
  reader.read("description", &p.description);
  reader.read("targets", &p.targets);
  reader.read("sweep", &p.sweep);
  reader.read("n", &p.n);
  reader.read("axes", &p.axes);
  reader.read("modes", &p.modes);
  reader.read("phases", &p.phases);
  reader.read("dtypes", &p.dtypes);
  reader.read("devices", &p.devices);
  reader.read("baselines", &p.baselines);
  reader.read("strategies", &p.strategies);
  reader.read("min_samples", &p.min_samples);
  reader.read("budget_s", &p.budget_s);
  reader.finish();
  if (schema != kPresetSchema && schema != 1)
    fail("[{}] schema: got {}, expected {}; try \"schema\": {}", file, schema, kPresetSchema,
         kPresetSchema);
  if (schema == 1) rename_modes(&p.modes);
  check(reader, p, file);
  return p;
}

Preset load_preset(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    fail("[{}] preset: got no readable file, expected JSON; try another path", printable(path));
  Preset p = parse_preset(std::string(MappedFile(path).bytes()), path);
  const std::string beside = fs::path(path).replace_extension(".csv").string();
  if (fs::is_regular_file(beside, error)) {
    std::istringstream published(std::string(MappedFile(beside).bytes()));
    read_published(published, beside, &p);
  }
  return p;
}

bool add_preset_file(const char* name, const char* text) {
  return own_files().emplace(name, text).second;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [file, text] : own_files())
    if (fs::path(file).extension() == ".json") names.push_back(fs::path(file).stem().string());
  return names;
}

std::vector<Preset> presets() {
  std::vector<Preset> list;
  for (const auto& [file, text] : own_files()) {
    if (fs::path(file).extension() != ".json") continue;
    list.push_back(parse_preset(text, file));
    const std::string beside = fs::path(file).replace_extension(".csv").string();
    if (const auto found = own_files().find(beside); found != own_files().end()) {
      std::istringstream published(found->second);
      read_published(published, beside, &list.back());
    }
  }
  return list;
}

Preset find_preset(const std::string& name) {
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".json")
    return load_preset(name);
  for (Preset& p : presets())
    if (p.name == name) return std::move(p);
  const std::vector<std::string> names = preset_names();
  fail("[{}] sweep: got no such preset, expected {} or a .json file; try {}", printable(name),
       listing(names, 99), nearest(name, names, "quick"));
}

}  // namespace wide
