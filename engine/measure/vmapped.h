#pragma once
#include <functional>
#include <vector>

#include "engine/program.h"

namespace wide {

/// `function` over N models by functorch's vmap, without its fallback, a slow loop. Arguments and
/// results are [N, ...]; arguments that are `shared` have no N. Gradients flow through. Throws
/// c10::Error for an operator without a batching rule.
Tensors vmapped(const std::function<Tensors(const Tensors&)>& function, const Tensors& arguments,
                const std::vector<bool>& shared, int64_t n);

}  // namespace wide
