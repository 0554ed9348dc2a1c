#pragma once
#include <vector>

#include "app/explorer/overlays/action_palette.h"

namespace wide {

class Explorer;

/// Everything that can be done by name, in the order it is listed.
std::vector<Action> actions_of(Explorer& explorer);

/// Does what the keys of this frame ask for.
void press_keys(Explorer& explorer);

}  // namespace wide
