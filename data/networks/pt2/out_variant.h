#pragma once
#include <optional>
#include <utility>

#include "data/networks/pt2/schema.h"

namespace wide::pt2 {

/// `aten::div.out(x, y, out=t)` writes into a tensor that it is given, and would resize it: the
/// same operator without `out`, and `copy_` of its result into `t`, as two nodes. nullopt for any
/// other node. torch.nn.utils.parametrizations.spectral_norm is exported with such nodes.
std::optional<std::pair<Node, Node>> without_out(const Node& node);

}  // namespace wide::pt2
