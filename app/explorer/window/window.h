#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// A desktop window. Throws Error with exit code 6 if there is no display or no OpenGL 3.
std::unique_ptr<Platform> window_platform(int width, int height);

}  // namespace wide
