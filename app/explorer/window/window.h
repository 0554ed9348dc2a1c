#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// A window of the desktop. Throws Error with exit code 6 where there is none, or no OpenGL 3.
std::unique_ptr<Platform> window_platform(int width, int height);

}  // namespace wide
