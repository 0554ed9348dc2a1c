#pragma once
#include <memory>

#include "app/explorer/window/platform.h"

namespace wide {

/// A platform that draws with OpenGL into memory, through EGL, without a display. Its pixels are
/// what a window shows, and the oracle of pictures, which are drawn without OpenGL.
std::unique_ptr<Platform> opengl_platform(int width, int height);

}  // namespace wide
