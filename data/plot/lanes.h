#pragma once
#include <string>
#include <vector>

namespace wide {

/// A bar of a timeline's lane: what ran, from when to when.
struct LaneBar {
  double begin_ns = 0, end_ns = 0;
  int depth = 0;   // 0, or 1 inside of another bar of its lane
  int series = 0;  // its colour
  std::string name;
};

struct Lane {
  std::string title;  // drawn above the first lane of a call; else ""
  std::string name;
  std::vector<LaneBar> bars;  // ascending begin
};

/// A bar by its lane and index.
struct PickedBar {
  size_t lane = 0, bar = 0;
  bool operator==(const PickedBar&) const = default;
};

}  // namespace wide
