#pragma once
#include "app/explorer/ui/ui.h"

namespace wide {

/// Begins a dialog in the middle of the window, of this size in units if there is room; false while
/// it is closed. If true, end it with ImGui::EndPopup.
bool begin_dialog(Ui& ui, const char* name, float width, float height);

/// Whether a key was pressed in this frame, or repeats while held.
bool pressed(int key);

}  // namespace wide
