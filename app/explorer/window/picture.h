#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// A platform that draws into memory through EGL, without a display. Throws Error with exit code 6.
std::unique_ptr<Platform> picture_platform(int width, int height);

}  // namespace wide
