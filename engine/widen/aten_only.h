#pragma once
#include <string>

#include "engine/widen/widen.h"

namespace wide {

/// The name of an operator that is not ATen's, or the operator and layout of a result without
/// strides; "" for the nodes that any LibTorch can run.
std::string outside_aten(const Program& program, const Node& node);

/// For WidenOptions::only: strategies made of ATen operators alone. The update of an optimiser is
/// one operator of this project in every mode, as torch.optim's `fused=True` is one of ATen's:
/// `optimizer_steps` says whether that one is allowed too.
OperatorsAllowed aten_alone(bool optimizer_steps);

/// Reads weights as they lie instead of copying them into the layout that a GEMM reads fastest: a
/// program whose weights are not prepared ahead of its calls would make that copy in every call,
/// which costs more than it saves.
void drop_weight_copies(Program& program);

/// Names of the passes that do more than take nodes away: `passes_off` of a program that runs
/// operator by operator as it was recorded.
std::set<std::string> passes_beyond_cleaning();

}  // namespace wide
