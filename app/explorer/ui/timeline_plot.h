#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/explorer/ui/ui.h"
#include "data/plot/lanes.h"

namespace wide {

/// Lanes below each other on one axis of time: the wheel zooms around the mouse, a drag moves, a
/// double click shows all of it.
class TimelinePlot {
 public:
  /// `end_ns`: of the axis; `about`: a line on the bar under the mouse. Returns the bar that was
  /// clicked.
  std::optional<PickedBar> draw(Ui& ui, const std::vector<Lane>& lanes, double end_ns,
                                const std::optional<PickedBar>& selected, float height,
                                const std::function<std::string(const PickedBar&)>& about);
  void fit() { high_ns_ = 0; }
  void show(double low_ns, double high_ns) {
    low_ns_ = low_ns;
    high_ns_ = high_ns;
  }

 private:
  struct Axis {
    double low_ns, high_ns;
    float left, right;
    float at(double ns) const {
      return left + static_cast<float>((ns - low_ns) / (high_ns - low_ns)) * (right - left);
    }
    double ns_at(float px) const {
      return low_ns + (high_ns - low_ns) * static_cast<double>((px - left) / (right - left));
    }
  };
  void input(const Axis& axis, double end_ns, bool held);
  static void draw_axis(Ui& ui, const Axis& axis, ImVec2 from, ImVec2 to);

  double low_ns_ = 0, high_ns_ = 0;  // visible range; high 0: all
  bool moved_ = false;               // since the button went down
};

}  // namespace wide
