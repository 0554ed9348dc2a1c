#include "app/explorer/settings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/bytes/part_file.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Calls `each(name, field)` for every field, to read and to write alike.
template <class S, class F>
void fields(S& s, F&& each) {
  each("width", s.width);
  each("height", s.height);
  each("dark", s.dark);
  each("scale", s.scale);
  each("left", s.left);
  each("right", s.right);
  each("bottom", s.bottom);
  each("left_folded", s.left_folded);
  each("right_folded", s.right_folded);
  each("bottom_folded", s.bottom_folded);
  each("narrow_right", s.narrow_right);
  each("layouts", s.layouts);
  each("view", s.view);
  each("left_view", s.left_view);
  each("filter", s.filter);
  each("store", s.store);
  each("over_loop", s.over_loop);
  each("measure", s.measure);
  each("axis", s.axis);
  each("matrix_rows", s.matrix_rows);
  each("matrix_columns", s.matrix_columns);
  each("colour", s.colour);
  each("tables", s.tables);
}

}  // namespace

std::string settings_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config && *config) return std::string(config) + "/workbench/explorer.json";
  return home && *home ? std::string(home) + "/.config/workbench/explorer.json" : "";
}

Settings load_settings(const std::string& path) {
  Settings settings;
  try {
    std::ifstream file(path);
    if (path.empty() || !file) return settings;
    const Json json = Json::parse(file);
    fields(settings, [&](const char* name, auto& field) {
      if (json.contains(name)) json[name].get_to(field);
    });
  } catch (const std::exception&) {
    return {};
  }
  settings.width = std::clamp(settings.width, 640, 16384);
  settings.height = std::clamp(settings.height, 400, 16384);
  if (settings.scale != 0) settings.scale = std::clamp(settings.scale, 0.75, 2.0);
  return settings;
}

void save_settings(const std::string& path, const Settings& settings) {
  if (path.empty()) return;
  Json json;
  fields(settings, [&](const char* name, const auto& field) { json[name] = field; });
  places().folder(std::filesystem::path(path).parent_path().string());
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  try {
    write_file(path, text);
  } catch (const Error&) {
    return;  // the settings file stays as it was
  }
}

}  // namespace wide
