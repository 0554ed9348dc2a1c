#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/explorer/explorer.h"
#include "app/explorer/window/platform.h"

namespace wide {

/// Times of frames.
struct FrameTimes {
  std::vector<double> work_ms;  // from reading the input to the end of drawing
  std::vector<double> cpu_ms;   // processor time of this thread in that
  double worst_ms() const { return percentile_ms(1); }
  double percentile_ms(double share) const;
};

/// The explorer on a platform, frame by frame.
class Screen {
 public:
  /// `only`: of Explorer::draw.
  Screen(std::unique_ptr<Platform> platform, std::string db, Settings settings,
         std::optional<Place> only = {});

  /// One frame with this input.
  void frame();
  /// Runs until somebody closes the window.
  void loop();
  /// Stores the window's state in the settings.
  void remember();

  Explorer& explorer() { return explorer_; }
  Ui& ui() { return ui_; }
  Platform& platform() { return *platform_; }
  Input input;
  FrameTimes times;

 private:
  void pictures();

  Ui ui_;
  std::unique_ptr<Platform> platform_;
  Explorer explorer_;
  std::optional<Place> only_;
  double last_s_ = 0;
  int picture_waited_ = 0;
};

}  // namespace wide
