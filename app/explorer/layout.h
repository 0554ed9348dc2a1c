#pragma once
#include "app/explorer/settings.h"

namespace wide {

/// Sizes in units of what stands above, below and between the panels.
inline constexpr float kHeaderHeight = 44, kFooterHeight = 26, kSplitter = 6, kTabHeight = 34;
/// Of a side that is folded away: what a click opens it by.
inline constexpr float kStrip = 22;

/// Where the panels stand in a window, in units.
struct WindowLayout {
  float left = 0, right = 0;  // widths; of folded sides kStrip
  float bottom = 0;           // height; folded kTabHeight, of its tabs
  bool left_folded = false, right_folded = false, bottom_folded = false;
};

/// As it was chosen, as far as the window has room for it: what was chosen is kept in the settings,
/// so that a window that was small for a while is as before once it is large. Where the middle
/// would be too narrow beside both sides, one of them is folded: that of `settings.narrow_right`
/// false the right one, else the left one.
WindowLayout layout_of(const Settings& settings, float width, float height);

/// Sizes and sides as at the first start; colours, scale and filters stay.
void reset_layout(Settings* settings);

}  // namespace wide
