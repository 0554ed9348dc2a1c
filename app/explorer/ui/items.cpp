#include "app/explorer/ui/items.h"

#include <fmt/format.h>

#include <algorithm>

namespace wide {
namespace {

Box overlap(const Box& a, const Box& b) {
  const double x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::min(a.right(), b.right()) - x, std::min(a.bottom(), b.bottom()) - y};
}

bool visible(const ScreenItem& item) {
  const Box seen = overlap(item.box, item.clip);
  return seen.width > 1 && seen.height > 1;
}

std::string where(const ScreenItem& i) {
  return fmt::format("{} {} '{}' [{:.0f} {:.0f} {:.0f} {:.0f}]", i.inside, to_string(i.kind),
                     i.label, i.box.x, i.box.y, i.box.width, i.box.height);
}

/// Rows and areas contain text, and points may lie anywhere.
bool holds_others(const ScreenItem& i) {
  return i.kind == ItemKind::row || i.kind == ItemKind::area || i.kind == ItemKind::mark;
}

}  // namespace

const char* to_string(ItemKind kind) {
  static const char* const names[] = {"button", "toggle", "choice", "field",  "row", "tab",
                                      "head",   "text",   "mark",   "handle", "area"};
  return names[static_cast<size_t>(kind)];
}

const ScreenItem* Items::find(const std::string& label, bool text_too) const {
  const ScreenItem* best = nullptr;
  const auto better = [&](const ScreenItem& i) {
    if (!best) return true;
    if (visible(i) != visible(*best)) return visible(i);
    return i.layer > best->layer;
  };
  for (const ScreenItem& i : last_)
    if (i.label == label && (text_too || i.kind != ItemKind::text) && better(i)) best = &i;
  return best;
}

std::vector<std::string> layout_faults(const std::vector<ScreenItem>& items, double width,
                                       double height) {
  std::vector<std::string> faults;
  constexpr double kSlack = 1.5;  // pixels, of rounding
  std::vector<const ScreenItem*> seen;
  for (const ScreenItem& i : items) {
    const bool left = i.box.x<i.clip.x - kSlack, right = i.box.right()> i.clip.right() + kSlack;
    const bool above = i.box.y<i.clip.y - kSlack, below = i.box.bottom()> i.clip.bottom() + kSlack;
    const bool beyond = i.box.right() > width + kSlack || i.box.bottom() > height + kSlack;
    const bool cut = ((left || right) && !i.scrolls_x) || ((above || below) && !i.scrolls_y) ||
                     (beyond && !i.scrolls_x && !i.scrolls_y);
    if (cut && !holds_others(i)) faults.push_back("cut off: " + where(i));
    if (!visible(i)) continue;
    seen.push_back(&i);
  }
  std::sort(seen.begin(), seen.end(),
            [](const ScreenItem* a, const ScreenItem* b) { return a->box.y < b->box.y; });
  for (size_t a = 0; a < seen.size(); ++a)
    for (size_t b = a + 1; b < seen.size() && seen[b]->box.y < seen[a]->box.bottom(); ++b) {
      const ScreenItem &i = *seen[a], &j = *seen[b];
      if (i.layer != j.layer || holds_others(i) || holds_others(j)) continue;
      const Box both = overlap(overlap(i.box, i.clip), overlap(j.box, j.clip));
      if (both.width > kSlack && both.height > kSlack + 1)
        faults.push_back(fmt::format("{} lies over {}", where(i), where(j)));
    }
  return faults;
}

}  // namespace wide
