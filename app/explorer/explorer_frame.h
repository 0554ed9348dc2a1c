#pragma once
#include "app/explorer/ui/ui.h"

namespace wide {

/// Draws a small triangle at `at` that points right (1), left (-1), down (2) or up (-2).
void draw_arrow(const Ui& ui, ImVec2 at, float direction);

}  // namespace wide
