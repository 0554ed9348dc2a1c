#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace wide {

/// The argument of an operator that selects training or evaluation, such as dropout's `train`.
struct ModeFlag {
  std::string_view op, argument;
  enum class What { dropout, batch_norm } what = What::dropout;
  /// The flag means something only where this argument is given; "": always.
  std::string_view needs = "";
  bool probability = false;  // the argument is a probability that is 0 in evaluation
};

/// All operators with such an argument.
const std::vector<ModeFlag>& mode_flags();
/// The flag of an operator such as "aten::dropout"; nullptr if it has none.
const ModeFlag* mode_flag(std::string_view op);
/// Whether an operator exists only for one mode, so that the other form cannot be derived from it.
bool is_bound_to_mode(std::string_view op);

}  // namespace wide
