#pragma once
#include "data/networks/network_format.h"
#include "data/networks/pt2/call_list.h"

namespace wide::pt2 {

/// What the calls say of the two forms.
FormFlags form_flags(const CallList& calls);
/// Switches the calls' flags.
void bring_into(Form form, CallList* calls);

}  // namespace wide::pt2
