#pragma once
#include "data/networks/pt2/call_list.h"

namespace wide::pt2 {

/// Throws Error naming the operator for what LibTorch does not have, for control flow, and, unless
/// `trusted`, for what files may not call.
CallList list_calls(const Program& program, const Setting& setting, const std::string& file,
                    bool trusted);

}  // namespace wide::pt2
