#pragma once
#include "data/networks/network_format.h"
#include "data/networks/pt2/call_list.h"

namespace wide::pt2 {

/// What the calls say of the two forms.
FormFlags form_flags(const CallList& calls);
/// Switches the calls' flags. Batch norms exported for evaluation with momentum=None count their
/// batches when they train. `program`: what the calls are of.
void bring_into(Form form, const Program& program, CallList* calls);

}  // namespace wide::pt2
