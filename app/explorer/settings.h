#pragma once
#include <string>

namespace wide {

/// Settings that are kept between starts.
struct Settings {
  int width = 1280, height = 800;  // of the window, in pixels of a monitor of scale 1
  bool dark = false;
  double scale = 0;                              // 0: the monitor's; else 0.75 to 2
  double left = 300, right = 330, bottom = 240;  // of the splitters, in units
  bool left_folded = false, right_folded = false, bottom_folded = false;
  bool narrow_right = false;  // if there is room for one side only, the right one stays open
  int layouts = 0;            // how often the layout was reset; part of tables' ids
  std::string view = "matrix", left_view = "run";
  std::string filter, store;  // filter of the table of trials, and the store it was made for
  bool over_loop = false;
  std::string measure = "speedup";
  std::string axis;                         // axis of plots; "": the default
  std::string matrix_rows, matrix_columns;  // axes; "": the default
  std::string colour = "speedup";           // of the matrix
  std::string tables;                       // ImGui's settings: order and width of columns
};

/// The values of `scale` that are offered, besides 0.
inline constexpr double kScales[] = {0.75, 0.9, 1, 1.25, 1.5, 1.75, 2};

/// `${XDG_CONFIG_HOME:-~/.config}/workbench/explorer.json`; "" if there is no home directory.
std::string settings_path();
/// Settings that cannot be read get their defaults.
Settings load_settings(const std::string& path);
/// Does nothing if the file cannot be written.
void save_settings(const std::string& path, const Settings& settings);

}  // namespace wide
