#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// A desktop window. With `scaled`, its size is that on a monitor of scale 1, and at most the free
/// area of the monitor; else it is in pixels. Throws Error with exit code 6 if there is no display
/// or no OpenGL 3.
std::unique_ptr<Platform> window_platform(int width, int height, bool scaled);

}  // namespace wide
