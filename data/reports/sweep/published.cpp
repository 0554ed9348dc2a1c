#include "data/reports/sweep/published.h"

#include "data/preset.h"

namespace wide {

std::optional<PublishedLine> published_line(const Case& c) {
  static const auto figures = find_preset("published").published;
  const auto of_target = figures.find(c.target);
  if (of_target == figures.end() || c.phase != "forward" || c.dtype != "f32") return std::nullopt;
  PublishedLine line{"published (A100)", {}, c.device == "cuda"};
  for (const auto& [n, speedup] : of_target->second)
    line.points.push_back({static_cast<double>(n), speedup});
  return line;
}

}  // namespace wide
