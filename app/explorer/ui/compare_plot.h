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

/// Draws times before and after on equal logarithmic axes, with the diagonal: points below it
/// became faster. Size in pixels. Returns the index of the point that was clicked.
std::optional<size_t> draw_compare_plot(Ui& ui, const std::vector<ComparedSpot>& spots, float width,
                                        float height);

}  // namespace wide
