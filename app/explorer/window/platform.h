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

/// What the explorer is drawn on, and where its input comes from.
class Platform {
 public:
  virtual ~Platform() = default;
  virtual float width() const = 0;  // in pixels
  virtual float height() const = 0;
  /// Asks for another size, in pixels.
  virtual void resize(int, int) {}
  /// Of the monitor: 2 on one with twice the pixels.
  virtual float monitor_scale() const { return 1; }
  /// Waits until something happens, at most so long, and adds it to `input`. True when somebody
  /// did something.
  virtual bool wait(Input& input, double seconds) = 0;
  /// Ends a wait; from any thread.
  virtual void wake() {}
  virtual bool closing() const { return false; }
  /// Draws what ImGui has made, to the end. `fonts` changes when the atlas is another one.
  virtual void draw(ImDrawData* data, int fonts, const ImVec4& background) = 0;
  /// Shows it, when the monitor is ready.
  virtual void present() {}
  /// What was drawn last; empty where nothing is.
  virtual Pixels pixels() { return {}; }
  /// Errors OpenGL has reported so far.
  virtual int gl_errors() { return 0; }
  virtual void set_clipboard(const std::string&) {}
  virtual std::string get_clipboard() { return ""; }
  virtual void set_cursor(ImGuiMouseCursor) {}
};

}  // namespace wide
