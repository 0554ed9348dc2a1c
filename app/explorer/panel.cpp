#include "app/explorer/panel.h"

#include <algorithm>
#include <tuple>

namespace wide {
namespace {

std::vector<PanelInfo>& known_panels() {
  static std::vector<PanelInfo> all;
  return all;
}

}  // namespace

const char* to_string(Place place) {
  static const char* const names[] = {"left", "middle", "right", "bottom"};
  return names[static_cast<size_t>(place)];
}

bool add_panel(PanelInfo info) {
  std::vector<PanelInfo>& all = known_panels();
  all.push_back(std::move(info));
  std::sort(all.begin(), all.end(), [](const PanelInfo& a, const PanelInfo& b) {
    return std::tie(a.place, a.order, a.name) < std::tie(b.place, b.order, b.name);
  });
  return true;
}

const std::vector<PanelInfo>& panels() { return known_panels(); }

}  // namespace wide
