#pragma once
#include <string>

#include "app/explorer/screen.h"

namespace wide {

/// Does what a person does, by label: moves, clicks, types. Runs frames until the screen has
/// answered; what is not there fails with an Error that names what is.
class Driver {
 public:
  explicit Driver(Screen& screen) : screen_(screen) {}

  void click(const std::string& label, int button = 0, bool twice = false);
  /// With keys held down: "Ctrl", "Ctrl+Shift".
  void click_with(const std::string& keys, const std::string& label);
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
  void hold(const std::string& keys, bool down);
  void frames(int count);
  [[noreturn]] void missing(const std::string& label) const;

  Screen& screen_;
};

}  // namespace wide
