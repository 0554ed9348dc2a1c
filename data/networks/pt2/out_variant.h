#pragma once
#include <optional>
#include <utility>

#include "data/networks/pt2/schema.h"

namespace wide::pt2 {

/// Replaces `aten::div.out(x, y, out=t)`, which resizes and writes `t`, by two nodes: the operator
/// without `out`, and `copy_` of its result into `t`. nullopt for any other node.
/// torch.nn.utils.parametrizations.spectral_norm is exported with such nodes.
std::optional<std::pair<Node, Node>> without_out(const Node& node);

}  // namespace wide::pt2
