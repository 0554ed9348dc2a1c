#pragma once
#include <optional>

#include "engine/program.h"

namespace wide {

/// The overload of a node's operator that writes into given tensors, such as `add.out`.
struct OutVariant {
  c10::OperatorHandle op;
  Stack (*adapt)(Stack);  // functional arguments to the variant's, out-tensors not included
  bool in_place = false;  // may write over an argument of the same layout
};

/// The out-form of a node of `program` with a kernel of its own (not one that computes and copies),
/// if there is one and it gives what the operator itself gives.
std::optional<OutVariant> find_out_variant(const Program& program, const Node& node,
                                           c10::DeviceType device);

}  // namespace wide
