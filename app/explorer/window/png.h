#pragma once
#include <string>

#include "app/explorer/window/platform.h"

namespace wide {

/// The bytes of a PNG file; empty if there are no pixels.
std::string png_bytes(const Pixels& pixels);
/// Throws Error with exit code 1 when it cannot be written.
void write_png(const std::string& path, const Pixels& pixels);

}  // namespace wide
