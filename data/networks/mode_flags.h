#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace wide {

/// An operator's argument that says whether it trains or evaluates.
struct ModeFlag {
  std::string_view op, argument;
  enum class What { dropout, batch_norm } what = What::dropout;
  /// The flag means something only where this argument is given; "": always.
  std::string_view needs = "";
  bool probability = false;  // a number that is 0 in evaluation, not a flag
};

/// All operators that have one.
const std::vector<ModeFlag>& mode_flags();
/// nullptr for an operator that has none. `op` as "aten::dropout".
const ModeFlag* mode_flag(std::string_view op);
/// Operators that exist for one mode alone: nothing says what they were before.
bool is_bound_to_mode(std::string_view op);

}  // namespace wide
