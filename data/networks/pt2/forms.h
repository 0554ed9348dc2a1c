#pragma once
#include "data/networks/network_format.h"
#include "data/networks/pt2/call_list.h"

namespace wide::pt2 {

/// Finds out what the calls tell about the forms for training and evaluation.
FormFlags form_flags(const CallList& calls);
/// Switches the calls' flags to a form. In training, batch norms that were exported for evaluation
/// with momentum=None count their batches. `program`: the program that has these calls.
void bring_into(Form form, const Program& program, CallList* calls);

}  // namespace wide::pt2
