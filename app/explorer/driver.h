#pragma once
#include <string>

#include "app/explorer/screen.h"

namespace wide {

/// Operates the explorer like a user: finds controls by label, moves, clicks, types, and runs
/// frames until the screen has reacted. Throws Error for a missing label.
class Driver {
 public:
  explicit Driver(Screen& screen) : screen_(screen) {}

  void click(const std::string& label, int button = 0, bool twice = false);
  /// Clicks with `keys` held down: "Ctrl", "Ctrl+Shift".
  void click_with(const std::string& keys, const std::string& label);
  void hover(const std::string& label);
  /// Types into the control that has the focus.
  void type(const std::string& text);
  /// Presses keys such as "Ctrl+P", "Enter", "?".
  void press(const std::string& keys);
  void drag(const std::string& label, float x, float y, int button = 0);
  void wheel(const std::string& label, float steps);
  /// Runs frames until all jobs are done and nothing on the screen moves.
  void settle(double seconds = 30);
  /// Runs frames until the text is on the screen.
  void await(const std::string& text, double seconds = 30);
  bool sees(const std::string& text) const;
  /// Runs a line of a script: `click LABEL`, `type TEXT`, `press KEYS`, `await TEXT`, `picture
  /// FILE`...
  void run_line(const std::string& line);
  void run_script(const std::string& text);

  /// Milliseconds from the last click to the end of the next frame.
  double answered_ms = 0;

 private:
  void hold(const std::string& keys, bool down);
  void frames(int count);
  /// The first label that begins with what stands before a final `*`; other labels as they are.
  std::string expanded(const std::string& label) const;
  [[noreturn]] void missing(const std::string& label) const;

  Screen& screen_;
};

}  // namespace wide
