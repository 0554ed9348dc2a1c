#pragma once
#include "app/explorer/ui/ui.h"

namespace wide {

/// A box in the middle of the window, of this size in units where there is room; false while it is
/// closed. Ends with ImGui::EndPopup.
bool begin_dialog(Ui& ui, const char* name, float width, float height);

/// Also when it repeats, being held.
bool pressed(int key);

}  // namespace wide
