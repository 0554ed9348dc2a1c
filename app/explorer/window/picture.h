#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// A picture in memory, through EGL: needs no display. Throws Error with exit code 6.
std::unique_ptr<Platform> picture_platform(int width, int height);

}  // namespace wide
