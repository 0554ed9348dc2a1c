#pragma once
#include <string>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

/// What was on the screen: so that a script can click by label, and a test see what is cut off or
/// lies over something else.
enum class ItemKind { button, toggle, choice, field, row, tab, head, text, mark, handle, area };
const char* to_string(ItemKind kind);

struct ScreenItem {
  ItemKind kind = ItemKind::text;
  std::string label;
  std::string value;   // of a field or choice; of text that was shortened, all of it
  std::string tip;     // what is said where the mouse rests on it
  Box box;             // in pixels of the window
  Box clip;            // what of the window its surroundings show
  std::string inside;  // the panel, or popup
  int layer = 0;       // popups lie over what is below
  bool enabled = true;
  bool scrolls_x = false, scrolls_y = false;  // may be outside of its clip: there is a scrollbar
  bool on = false;                            // of a toggle or tab
};

class Items {
 public:
  void begin() {
    last_.swap(now_);
    now_.clear();
  }
  void add(ScreenItem item) { now_.push_back(std::move(item)); }
  /// Says what the item that was added last holds.
  void set_value(const std::string& value) {
    if (!now_.empty()) now_.back().value = value;
  }
  void set_tip(const std::string& tip) {
    if (!now_.empty()) now_.back().tip = tip;
  }
  /// Of the frame that is complete.
  const std::vector<ScreenItem>& last() const { return last_; }
  const std::vector<ScreenItem>& now() const { return now_; }

  /// The topmost item of this label that can be clicked, or null. `kinds` empty: any but text.
  const ScreenItem* find(const std::string& label, bool text_too = false) const;

  /// A script wants this to be scrolled into view.
  std::string wanted;

 private:
  std::vector<ScreenItem> last_, now_;
};

/// What of `items` is cut off by its surroundings, or lies over another: one line each. Rows may
/// hold text and buttons; what lies in different layers may overlap.
std::vector<std::string> layout_faults(const std::vector<ScreenItem>& items, double width,
                                       double height);

}  // namespace wide
