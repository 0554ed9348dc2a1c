#pragma once
#include <bitset>
#include <deque>
#include <string>
#include <vector>

namespace wide {

/// One event from the window: a movement, click, wheel turn, key or character.
struct InputEvent {
  enum class Kind { move, button, wheel, key, character };
  Kind kind = Kind::move;
  int code = 0;  // of the button (0 to 2) or key
  bool down = false;
  float x = 0, y = 0;  // where the mouse is, or how far the wheel was turned
  char32_t character = 0;
};

/// Mouse and keyboard as the next frame sees them. A window (`platform`) or a script (`driver`)
/// fills it in; `ui` reads it. Keys have GLFW's numbers.
struct Input {
  float x = -1, y = -1;  // position of the mouse; below 0: not over the window
  bool down[3] = {};     // left, right, middle
  bool pressed[3] = {};  // since the last frame, even if released again
  float wheel_x = 0, wheel_y = 0;
  std::bitset<512> keys;
  std::u32string characters;
  std::vector<std::string> dropped;  // files
  bool focused = true;
  /// Events of the window that no frame has taken yet. A whole chord or click may come at once.
  std::deque<InputEvent> queue;

  /// Takes events from the queue for one frame: pressing and releasing a key or button takes two
  /// frames.
  void take();
  /// After a frame: resets what counts for one frame only.
  void next() {
    for (bool& p : pressed) p = false;
    wheel_x = wheel_y = 0;
    characters.clear();
    dropped.clear();
  }
};

namespace key {
inline constexpr int kSpace = 32, kMinus = 45, k0 = 48, kEqual = 61, kA = 65, kC = 67, kD = 68,
                     kP = 80, kQ = 81, kR = 82, kV = 86, kX = 88, kY = 89, kZ = 90, kEscape = 256,
                     kEnter = 257, kTab = 258, kBackspace = 259, kInsert = 260, kDelete = 261,
                     kRight = 262, kLeft = 263, kDown = 264, kUp = 265, kPageUp = 266,
                     kPageDown = 267, kHome = 268, kEnd = 269, kF5 = 294, kShift = 340,
                     kControl = 341, kAlt = 342, kKeypadEnter = 335, kRightShift = 344,
                     kRightControl = 345, kRightAlt = 346;
}

}  // namespace wide
