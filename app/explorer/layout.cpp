#include "app/explorer/layout.h"

#include <algorithm>

namespace wide {
namespace {

constexpr float kLeastLeft = 220, kLeastRight = 240, kLeastMiddle = 300, kLeastBottom = 110;
constexpr float kSmallWidth = 1100, kSmallHeight = 560;

float fitting(double chosen, float least, float most) {
  return std::clamp(static_cast<float>(chosen), std::min(least, most), std::max(least, most));
}

}  // namespace

WindowLayout layout_of(const Settings& settings, float width, float height) {
  WindowLayout layout;
  // In a small window the middle keeps half of the width.
  const float side = width * (width < kSmallWidth ? 0.25f : 0.35f);
  const float high = height - kHeaderHeight - kFooterHeight;
  const auto take = [&] {
    layout.left = layout.left_folded ? kStrip : fitting(settings.left, kLeastLeft, side);
    layout.right = layout.right_folded ? kStrip : fitting(settings.right, kLeastRight, side);
  };
  layout.left_folded = settings.left_folded;
  layout.right_folded = settings.right_folded;
  take();
  if (!layout.left_folded && !layout.right_folded &&
      width - layout.left - layout.right - 2 * kSplitter < kLeastMiddle) {
    (settings.narrow_right ? layout.left_folded : layout.right_folded) = true;
    take();
  }
  layout.bottom_folded = settings.bottom_folded;
  layout.bottom = layout.bottom_folded ? kTabHeight
                                       : fitting(settings.bottom, kLeastBottom,
                                                 high * (high < kSmallHeight ? 0.35f : 0.6f));
  return layout;
}

void reset_layout(Settings* settings) {
  const Settings first;
  settings->left = first.left;
  settings->right = first.right;
  settings->bottom = first.bottom;
  settings->left_folded = settings->right_folded = settings->bottom_folded = false;
  settings->narrow_right = false;
  ++settings->layouts;
}

}  // namespace wide
