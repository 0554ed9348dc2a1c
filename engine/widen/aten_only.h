#pragma once
#include <string>

#include "engine/widen/widen.h"

namespace wide {

/// The name of an operator that is not ATen's, or the operator and layout of a result without
/// strides; "" for the nodes that any LibTorch can run.
std::string outside_aten(const Program& program, const Node& node);

/// For WidenOptions::only: strategies that use only ATen operators. `optimizer_steps`: also allows
/// this project's operator for an optimiser's step, which all modes use, like ATen's for
/// `fused=True`.
OperatorsAllowed aten_alone(bool optimizer_steps);

/// Removes copies of weights into the layout that a GEMM reads fastest: a program that does not
/// prepare weights before its calls would copy in every call, which costs more than it saves.
void drop_weight_copies(Program& program);

/// Names of the passes that do more than remove nodes: `passes_off` for a program that runs
/// operator by operator as recorded.
std::set<std::string> passes_beyond_cleaning();

}  // namespace wide
