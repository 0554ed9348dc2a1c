#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/explorer/explorer.h"
#include "app/explorer/window/platform.h"

namespace wide {

/// Times of frames.
struct FrameTimes {
  std::vector<double> work_ms;  // from its input to the end of its drawing
  std::vector<double> cpu_ms;   // of it, on this thread's processor
  double worst_ms() const;
  double percentile_ms(double share) const;
};

/// The explorer on a platform, frame by frame.
class Screen {
 public:
  Screen(std::unique_ptr<Platform> platform, std::string db, Settings settings, bool whole = true);
  ~Screen();

  /// One frame with this input.
  void frame();
  /// Runs until somebody closes the window.
  void loop();
  /// Puts what is to be remembered into the settings.
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
  bool whole_;
  double last_s_ = 0;
  int picture_waited_ = 0;
};

}  // namespace wide
