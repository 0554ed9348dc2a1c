#pragma once
#include "data/networks/pt2/call_list.h"

namespace wide::pt2 {

/// Builds the list of calls. Throws Error that names the operator if LibTorch lacks it, if it is
/// control flow, or, unless `trusted`, if files may not call it.
CallList list_calls(const Program& program, const Setting& setting, const std::string& file,
                    bool trusted);

}  // namespace wide::pt2
