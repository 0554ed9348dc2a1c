#pragma once
#include <functional>
#include <vector>

#include "engine/program.h"

namespace wide {

/// Orders the nodes of a backward pass so that it needs little memory. `again`: nodes that the
/// forward pass has run too; they run just before their first reader. Large gradients that no other
/// node reads are computed last where `bytes(program)` is less then: until they are written, their
/// memory holds saved values.
void schedule(Program& program, const std::vector<bool>& again,
              const std::function<int64_t(const Program&)>& bytes);

}  // namespace wide
