#pragma once
#include "app/explorer/ui/ui.h"

namespace wide {

/// A small triangle around `at` that points to the right (1) or left (-1), down (2) or up (-2).
void draw_arrow(const Ui& ui, ImVec2 at, float direction);

}  // namespace wide
