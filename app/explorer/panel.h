#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace wide {

class Explorer;
class Ui;

/// Where a panel lies: what to run, what was found, the selected trial, the trials.
enum class Place { left, middle, right, bottom };
const char* to_string(Place place);

/// A part of the explorer. One file each under app/explorer/panels, registered by itself.
class Panel {
 public:
  virtual ~Panel() = default;
  /// Once a frame while it is seen, inside a region of its own.
  virtual void draw(Explorer& explorer, Ui& ui) = 0;
  /// The store is another one now: what was read from the one before goes.
  virtual void store_replaced() {}
  /// Files were dropped on the window; true when they are taken.
  virtual bool drop(Explorer&, const std::vector<std::string>& /*paths*/) { return false; }
};

struct PanelInfo {
  std::string name;     // of --view and in lists: "matrix"
  std::string title;    // of its tab
  std::string summary;  // one line
  Place place = Place::middle;
  int order = 0;  // of tabs, from the left
  std::function<std::unique_ptr<Panel>()> make;
};
bool add_panel(PanelInfo info);
/// By place, then order.
const std::vector<PanelInfo>& panels();

}  // namespace wide
