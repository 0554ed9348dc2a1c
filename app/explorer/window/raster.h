#pragma once
#include <memory>

#include "app/explorer/window/platform.h"

namespace wide {

/// Draws ImGui's draw data in software, without display and OpenGL. The draw data must use the
/// current context's fonts.
Pixels rasterise(const ImDrawData& data, const ImVec4& background);

/// A platform without display and OpenGL, whose pixels are computed when they are asked for.
std::unique_ptr<Platform> picture_platform(int width, int height);

}  // namespace wide
