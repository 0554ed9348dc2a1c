#pragma once

namespace wide {

/// Functionalization makes every call that writes on meta tensors first, to hear what its kernel
/// refuses. LibTorch has no meta kernels for operators whose shapes only PyTorch's Python knows
/// (`logical_and_`, `fill_diagonal_`): gives those one that leaves everything as it is. Once; by
/// whoever records.
void add_meta_kernels();

}  // namespace wide
