#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// Draws nothing, and nobody sits before it.
std::unique_ptr<Platform> null_platform(int width, int height);

}  // namespace wide
