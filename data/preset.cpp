#include "data/preset.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// Where the program's own presets lie: in its sources, which are where it was built.
fs::path preset_folder() {
  if (const char* source = std::getenv("WORKBENCH_SOURCE")) {
    std::error_code error;
    const fs::path folder = fs::path(source) / "presets";
    if (fs::is_directory(folder, error)) return folder;
  }
#ifdef WORKBENCH_SOURCE_DIR
  return fs::path(WORKBENCH_SOURCE_DIR) / "presets";
#else
  std::error_code error;
  // Without the definition: the folder above the build folder that holds this program.
  for (fs::path at = fs::read_symlink("/proc/self/exe", error).parent_path();
       at.has_relative_path(); at = at.parent_path())
    if (fs::is_directory(at / "presets", error)) return at / "presets";
  return fs::path(__FILE__).parent_path().parent_path() / "presets";
#endif
}

class Reader {
 public:
  Reader(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

  template <class T>
  void read(const char* key, T* value) {
    known_.insert(key);
    if (!json_.contains(key)) return;
    try {
      json_.at(key).get_to(*value);
    } catch (const Json::exception&) {
      fail("[{}] {}: got {}, expected another kind of value; try the presets in presets/", file_,
           key, printable(json_.at(key).dump(), 60));
    }
  }

  void one_of(const char* key, const std::vector<std::string>& values,
              const std::vector<std::string>& allowed) {
    for (const std::string& value : values)
      if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
        fail("[{}] {}: got {}, expected {}; try {}", file_, key, printable(value),
             listing(allowed, 9), allowed.front());
  }

  void finish() {
    for (const auto& [key, value] : json_.items())
      if (!known_.count(key)) {
        const std::vector<std::string> keys(known_.begin(), known_.end());
        const std::string near = nearest(key, keys);
        fail("[{}] key: got {}, expected one of {}; try {}", file_, printable(key),
             listing(keys, 99), near.empty() ? "to leave it out" : near);
      }
  }

 private:
  const Json& json_;
  std::string file_;
  std::set<std::string> known_;
};

}  // namespace

Preset load_preset(const std::string& path) {
  const std::string file = printable(path);
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) fail("[{}] preset: got no readable file, expected JSON; try another path", file);
  Json json;
  try {
    json = Json::parse(text.str());
  } catch (const Json::exception& e) {
    fail("[{}] preset: got bad JSON ({}), expected an object; try the presets in presets/", file,
         one_line(e));
  }
  if (!json.is_object())
    fail("[{}] preset: got {}, expected an object; try the presets in presets/", file,
         json.type_name());

  Preset p;
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
  reader.read("budget_s", &p.budget_s);
  reader.finish();
  if (schema != 1) fail("[{}] schema: got {}, expected 1; try \"schema\": 1", file, schema);
  reader.one_of("sweep", {p.sweep}, {"quick", "full", "ci"});
  reader.one_of("phases", p.phases, {"forward", "backward", "step"});
  reader.one_of("baselines", p.baselines, {"loop", "threads", "vmap", "streams", "graph"});
  if (p.targets.empty()) fail("[{}] targets: got none, expected names; try primitives", file);
  for (const int64_t n : p.n)
    if (n < 1) fail("[{}] n: got {}, expected positive numbers; try 4", file, n);
  if (!(p.budget_s > 0))
    fail("[{}] budget_s: got {}, expected a positive number; try 0.3", file, p.budget_s);
  return p;
}

std::vector<Preset> presets() {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(preset_folder(), error))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Preset> list;
  for (const fs::path& file : files) list.push_back(load_preset(file.string()));
  return list;
}

Preset find_preset(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".json")
    return load_preset(name);
  const fs::path file = preset_folder() / (name + ".json");
  if (fs::is_regular_file(file, error)) return load_preset(file.string());
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.push_back(p.name);
  const std::string near = nearest(name, names);
  fail("[{}] sweep: got no such preset, expected {} or a .json file; try {}", printable(name),
       listing(names, 99), near.empty() ? "quick" : near);
}

}  // namespace wide
