#pragma once
#include "engine/program.h"

namespace wide {

/// The same program without the fused attentions of GPUs, which have no kernel in double precision
/// (aten::_scaled_dot_product_{efficient,flash,cudnn}_attention and their gradients): in their
/// place stand the products and the softmax that they compute. Those that drop values out stay,
/// since their result is no number to compare with.
Program in_exact_operators(const Program& program);

}  // namespace wide
