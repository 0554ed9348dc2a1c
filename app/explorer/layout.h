#pragma once
#include "app/explorer/settings.h"

namespace wide {

/// Sizes in units of the header, the footer and what is between panels.
inline constexpr float kHeaderHeight = 44, kFooterHeight = 26, kSplitter = 6, kTabHeight = 34;
/// Width of a folded side's strip; a click on it opens the side.
inline constexpr float kStrip = 22;

/// The places of the panels in a window, in units.
struct WindowLayout {
  float left = 0, right = 0;  // widths; kStrip if folded
  float bottom = 0;           // height; kTabHeight if folded
  bool left_folded = false, right_folded = false, bottom_folded = false;
};

/// The layout of `settings`, reduced to what fits into the window. The settings stay unchanged, so
/// that a window made small and large again looks as before. If the middle would be too narrow, one
/// side is folded: the left one with `settings.narrow_right`, else the right one.
WindowLayout layout_of(const Settings& settings, float width, float height);

/// Resets sizes and folded sides to the defaults; colours, scale and filters stay.
void reset_layout(Settings* settings);

}  // namespace wide
