#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// Draws ImGui's draw data in software, without display and OpenGL. The draw data must use the
/// current context's fonts.
Pixels rasterise(const ImDrawData& data, const ImVec4& background);

}  // namespace wide
