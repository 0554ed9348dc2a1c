#pragma once
#include <functional>
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

/// Does what a person does, by label: moves, clicks, types. Runs frames until the screen has
/// answered; what is not there fails with an Error that names what is.
class Driver {
 public:
  explicit Driver(Screen& screen) : screen_(screen) {}

  void click(const std::string& label, int button = 0, bool twice = false);
  void hover(const std::string& label);
  /// Into whatever has the focus.
  void type(const std::string& text);
  /// "Ctrl+P", "Enter", "?".
  void press(const std::string& keys);
  void drag(const std::string& label, float x, float y, int button = 0);
  void wheel(const std::string& label, float steps);
  /// Frames until all jobs are done and nothing moves any more.
  void settle(double seconds = 30);
  /// Frames until the text is somewhere on the screen.
  void await(const std::string& text, double seconds = 30);
  bool sees(const std::string& text) const;
  /// A line of a script: `click LABEL`, `type TEXT`, `press KEYS`, `await TEXT`, `picture FILE`...
  void run_line(const std::string& line);
  void run_script(const std::string& text);

  /// Milliseconds from the last click to the end of the frame that answered it.
  double answered_ms = 0;

 private:
  void move_to(const std::string& label);
  void frames(int count);
  [[noreturn]] void missing(const std::string& label) const;

  Screen& screen_;
};

}  // namespace wide
