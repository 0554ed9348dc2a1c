#pragma once
#include "app/explorer/window/platform.h"

namespace wide {

/// What ImGui has made, as a picture computed here: without a display and without OpenGL. The
/// current context's fonts are those it was made with.
Pixels rasterise(const ImDrawData& data, const ImVec4& background);

}  // namespace wide
