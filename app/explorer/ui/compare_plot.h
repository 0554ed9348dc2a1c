#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/explorer/ui/ui.h"

namespace wide {

/// One trial in both of two sweeps.
struct ComparedSpot {
  std::string name, about;
  double before_ns = 0, after_ns = 0;
  std::string verdict;
  bool selected = false;
};

/// Times before and after on logarithmic axes of the same range, with the line on which both are
/// equal: what lies below it takes less time now. In a box of this size in pixels; returns which
/// one was clicked.
std::optional<size_t> draw_compare_plot(Ui& ui, const std::vector<ComparedSpot>& spots, float width,
                                        float height);

}  // namespace wide
