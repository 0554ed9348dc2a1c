#pragma once
#include "engine/program.h"

namespace wide {

/// The same program without the fused attentions of GPUs, which have no kernel in double precision
/// (aten::_scaled_dot_product_{efficient,flash,cudnn}_attention and their gradients): replaced by
/// the products and the softmax that they compute. Those with dropout stay, since their results are
/// not compared by value.
Program in_exact_operators(const Program& program);

}  // namespace wide
