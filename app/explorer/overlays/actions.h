#pragma once
#include <vector>

#include "app/explorer/overlays/action_palette.h"

namespace wide {

class Explorer;

/// All actions, in the order of the list.
std::vector<Action> actions_of(Explorer& explorer);

/// Runs those of all `actions` whose keys were pressed in this frame.
void press_keys(Explorer& explorer, const std::vector<Action>& actions);

}  // namespace wide
