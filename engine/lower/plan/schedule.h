#pragma once
#include <functional>
#include <vector>

#include "engine/program.h"

namespace wide {

/// Orders the nodes of a backward pass so that it needs little memory. `again`: nodes that
/// recompute what the forward pass has computed; they run just before their first reader. The
/// largest gradients that no other node reads are computed last if `bytes(program)` is less then:
/// until a gradient is written, its memory holds saved values.
void schedule(Program& program, const std::vector<bool>& again,
              const std::function<int64_t(const Program&)>& bytes);

}  // namespace wide
