#pragma once
#include "data/networks/pt2/call_list.h"

namespace wide::pt2 {

/// Throws Error naming the operator for what LibTorch does not have, and for control flow.
CallList list_calls(const Program& program, const Setting& setting, const std::string& file);

}  // namespace wide::pt2
