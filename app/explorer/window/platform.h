#pragma once
#include <imgui.h>

#include <cstdint>
#include <string>
#include <vector>

#include "app/explorer/ui/input.h"

namespace wide {

/// A picture, top row first, three bytes a pixel.
struct Pixels {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// The explorer's output and input: a window, a picture or nothing.
class Platform {
 public:
  virtual ~Platform() = default;
  virtual float width() const = 0;  // in pixels
  virtual float height() const = 0;
  /// Requests another size, in pixels.
  virtual void resize(int, int) {}
  /// The monitor's scale: 2 for twice the pixels.
  virtual float monitor_scale() const { return 1; }
  /// Waits at most `seconds` for events and adds them to `input`. True if the user did something.
  virtual bool wait(Input& input, double seconds) = 0;
  /// Ends a `wait`; may be called from any thread.
  virtual void wake() {}
  virtual bool closing() const { return false; }
  /// Draws ImGui's draw data completely. `fonts`: a version that changes with the font atlas.
  virtual void draw(ImDrawData* data, int fonts, const ImVec4& background) = 0;
  /// Shows the frame, at the monitor's refresh.
  virtual void present() {}
  /// The last drawn pixels; empty if the platform has none.
  virtual Pixels pixels() { return {}; }
  /// The number of OpenGL errors so far.
  virtual int gl_errors() { return 0; }
  virtual void set_clipboard(const std::string&) {}
  virtual std::string get_clipboard() { return ""; }
  virtual void set_cursor(ImGuiMouseCursor) {}
};

}  // namespace wide
