#include "app/explorer/panel.h"

#include <tuple>

#include "engine/program/registry.h"

namespace wide {
const char* to_string(Place place) {
  static const char* const names[] = {"left", "middle", "right", "bottom"};
  return names[static_cast<size_t>(place)];
}

bool add_panel(PanelInfo info) {
  return enter(std::move(info),
               [](const PanelInfo& p) { return std::tie(p.place, p.order, p.name); });
}
const std::vector<PanelInfo>& panels() { return registry<PanelInfo>(); }

}  // namespace wide
