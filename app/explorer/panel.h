#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace wide {

class Explorer;
class Ui;

/// The place of a panel. Left: what to run; middle: results; right: the selected trial; bottom: all
/// trials.
enum class Place { left, middle, right, bottom };
const char* to_string(Place place);

/// A part of the explorer. One file each under app/explorer/panels, registered by itself.
class Panel {
 public:
  virtual ~Panel() = default;
  /// Called once a frame while the panel is visible, inside its own region.
  virtual void draw(Explorer& explorer, Ui& ui) = 0;
  /// The store was replaced: drops everything read from the previous one.
  virtual void store_replaced() {}
  /// Files were dropped on the window; true if the panel takes them.
  virtual bool drop(Explorer&, const std::vector<std::string>& /*paths*/) { return false; }
};

struct PanelInfo {
  std::string name;     // name for --view and lists: "matrix"
  std::string title;    // title of its tab
  std::string summary;  // one line
  Place place = Place::middle;
  int order = 0;  // order of tabs, from the left
  std::function<std::unique_ptr<Panel>()> make;
};
bool add_panel(PanelInfo info);
/// All panels, sorted by place, then order.
const std::vector<PanelInfo>& panels();

}  // namespace wide
