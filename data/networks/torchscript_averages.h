#pragma once
#include <torch/csrc/jit/api/module.h>

namespace wide {

/// A batch norm with momentum=None reads the number of batches that it has seen off its tensor, to
/// weigh the new one: a number that no recording has. Afterwards it keeps the means over all
/// batches by tensors alone, as the same values. Changes the code of the module, before it runs.
void average_by_tensors(const torch::jit::Module& module);

}  // namespace wide
