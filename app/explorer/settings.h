#pragma once
#include <string>

namespace wide {

/// What is remembered from one start to the next.
struct Settings {
  int width = 1280, height = 800;  // of the window, in pixels
  bool dark = false;
  double scale = 0;                              // 0: as the monitor says; else 0.75 to 2
  double left = 300, right = 330, bottom = 240;  // of the splitters, in units
  bool left_folded = false, right_folded = false, bottom_folded = false;
  bool narrow_right = false;  // which side stays open where there is room for one: the right one
  int layouts = 0;            // how often the layout was reset: tables remember by it
  std::string view = "matrix", left_view = "run";
  std::string filter, store;  // of the table of trials, and of which store it was
  bool over_loop = false;
  std::string measure = "speedup";
  std::string axis;                         // of plots; "": as the sweep suggests
  std::string matrix_rows, matrix_columns;  // axes; "": as the sweep suggests
  std::string colour = "speedup";           // of the matrix
  std::string tables;                       // ImGui's own: order and width of columns
};

/// `${XDG_CONFIG_HOME:-~/.config}/workbench/explorer.json`; "" without a home.
std::string settings_path();
/// What cannot be read is as at the first start.
Settings load_settings(const std::string& path);
/// Quietly nothing where it cannot be written.
void save_settings(const std::string& path, const Settings& settings);

}  // namespace wide
