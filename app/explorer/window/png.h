#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// Throws Error with exit code 1 when it cannot be written.
void write_png(const std::string& path, const Pixels& pixels);

}  // namespace wide
