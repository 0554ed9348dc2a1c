#pragma once
#include <imgui.h>

#include <map>
#include <utility>
#include <vector>

#include "app/explorer/window/platform.h"

namespace wide {

/// A shared library opened at run time, never linked, and never unloaded: drivers' threads and exit
/// handlers still run its code.
class SharedLibrary {
 public:
  /// Throws Error with exit code 6 if the library is missing.
  SharedLibrary(const char* file, const char* what, const char* package);
  /// One of its functions, of type F.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  void* handle_;
  const char* file_;
};

/// ImGui's OpenGL 3 renderer for the current context.
class GlRenderer {
 public:
  /// Throws Error with exit code 6 if libGL.so.1 is missing, or if there is no current context or
  /// one older than OpenGL 3.0.
  GlRenderer();
  ~GlRenderer();
  /// Draws one frame. `fonts`: a version that changes with the font atlas.
  void draw(ImDrawData* data, int fonts, const ImVec4& background);
  /// The pixels of the frame that `draw` has made, top row first.
  Pixels read(int width, int height);
  int errors() const { return errors_; }

 private:
  std::vector<std::pair<ImDrawCmd*, ImTextureID>> take_images(ImDrawData* data);

  SharedLibrary library_{"libGL.so.1", "OpenGL", "libgl1"};
  void (*finish_)() = library_.function<void()>("glFinish");
  std::map<uint64_t, unsigned> textures_;  // textures of images, by version
  int fonts_ = -1, errors_ = 0;
};

}  // namespace wide
