#pragma once
#include <imgui.h>

#include <string>

#include "data/plot/palette.h"

namespace wide {

/// Colours beyond those of plots, as 0xRRGGBB.
struct Theme {
  bool dark = false;
  Palette plot;
  uint32_t window, panel, raised, hover, active, border, accent, on_accent, good, bad, warn;
};
const Theme& theme(bool dark);

ImU32 colour(uint32_t rgb, double opacity = 1);
ImVec4 colour4(uint32_t rgb, double opacity = 1);

/// Sets ImGui's own colours and sizes; `scale` is pixels per unit.
void apply_theme(const Theme& theme, float scale);

struct Fonts {
  ImFont *body = nullptr, *bold = nullptr, *small = nullptr, *small_bold = nullptr,
         *title = nullptr;
  std::string name;  // name of the family or its fallback
};
/// Loads Inter, else another installed font, else ImGui's own, into the context's atlas.
/// `family_folder` empty: the folder `fonts` beside the program, else where Debian keeps fonts.
Fonts load_fonts(float scale, const std::string& family_folder = "");

}  // namespace wide
