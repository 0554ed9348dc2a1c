#pragma once
#include "app/explorer/ui/ui.h"

namespace wide {

/// Begins a dialog in the middle of the window, of this size in units if there is room; false while
/// it is closed. If true, end it with `end_dialog`.
bool begin_dialog(Ui& ui, const char* name, bool open, float width, float height);
/// Ends it, and closes it unless it stays `open`.
void end_dialog(bool open);

/// Whether a key was pressed in this frame, or repeats while held.
bool pressed(int key);

}  // namespace wide
