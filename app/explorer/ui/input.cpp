#include "app/explorer/ui/input.h"

namespace wide {
namespace {

/// Keys that move the cursor of a text field or end its editing: characters typed before and after
/// them belong in different frames.
bool moves_text(int key) { return key >= key::kEscape && key < key::kShift; }

}  // namespace

// A frame sees the final state of keys and buttons alone. So events are taken up to the first that
// would hide an earlier one: the rest waits in the queue for the next frame.
void Input::take() {
  std::bitset<512> keys_changed;
  bool buttons_changed[3] = {}, any_button = false, wheeled = false, typed = false, moved = false;
  for (; !queue.empty(); queue.pop_front()) {
    const InputEvent& e = queue.front();
    const auto code = static_cast<size_t>(e.code);
    switch (e.kind) {
      case InputEvent::Kind::move:
        if (any_button || wheeled) return;
        x = e.x;
        y = e.y;
        break;
      case InputEvent::Kind::button:
        if (buttons_changed[code] || wheeled) return;
        buttons_changed[code] = any_button = true;
        down[code] = e.down;
        pressed[code] |= e.down;
        break;
      case InputEvent::Kind::wheel:
        if (any_button) return;
        wheeled = true;
        wheel_x += e.x;
        wheel_y += e.y;
        break;
      case InputEvent::Kind::key:
        if (keys[code] == e.down) break;  // held: ImGui repeats it by itself
        if (keys_changed[code] || any_button) return;
        if (e.down && moves_text(e.code)) {
          if (typed) return;
          moved = true;
        }
        keys_changed.set(code);
        keys[code] = e.down;
        break;
      case InputEvent::Kind::character:
        if (moved) return;
        typed = true;
        characters += e.character;
        break;
    }
  }
}

}  // namespace wide
