#pragma once
#include <torch/csrc/jit/api/module.h>

namespace wide {

/// A batch norm with momentum=None reads its count of batches from a tensor into a Python number,
/// which cannot be recorded. Rewrites the module's code, before it runs, so that it computes the
/// same running means with tensors only.
void average_by_tensors(const torch::jit::Module& module);

}  // namespace wide
