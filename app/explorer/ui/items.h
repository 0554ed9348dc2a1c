#pragma once
#include <string>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

/// Items on the screen, noted so that scripts can click by label, and tests find clipped or
/// overlapping items.
enum class ItemKind { button, toggle, choice, field, row, tab, head, text, mark, handle, area };
const char* to_string(ItemKind kind);

struct ScreenItem {
  ItemKind kind = ItemKind::text;
  std::string label;
  std::string value;   // value of a field or choice; the full text if it was shortened
  std::string tip;     // tooltip
  Box box;             // in pixels of the window
  Box clip;            // the visible part of its surroundings
  std::string inside;  // name of the panel or popup
  int layer = 0;       // popups have higher layers
  bool enabled = true;
  bool scrolls_x = false, scrolls_y = false;  // may be outside of its clip: there is a scrollbar
  bool on = false;                            // state of a toggle or tab
};

class Items {
 public:
  void begin() {
    last_.swap(now_);
    now_.clear();
  }
  void add(ScreenItem item) { now_.push_back(std::move(item)); }
  /// Sets the value of the item added last.
  void set_value(const std::string& value) {
    if (!now_.empty()) now_.back().value = value;
  }
  void set_tip(const std::string& tip) {
    if (!now_.empty()) now_.back().tip = tip;
  }
  /// The items of the last complete frame.
  const std::vector<ScreenItem>& last() const { return last_; }
  const std::vector<ScreenItem>& now() const { return now_; }

  /// The topmost item with this label in the last complete frame, visible ones first; null if there
  /// is none. Plain text counts only with `text_too`.
  const ScreenItem* find(const std::string& label, bool text_too = false) const;

  /// A label that a script wants scrolled into view.
  std::string wanted;

 private:
  std::vector<ScreenItem> last_, now_;
};

/// One line for each item that is clipped or overlaps another. Rows may contain text and buttons;
/// items in different layers may overlap.
std::vector<std::string> layout_faults(const std::vector<ScreenItem>& items, double width,
                                       double height);

}  // namespace wide
