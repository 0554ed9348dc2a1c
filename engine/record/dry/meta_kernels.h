#pragma once

namespace wide {

/// Functionalization first makes every mutating call on meta tensors, for its checks. LibTorch
/// lacks meta kernels for operators whose shapes only PyTorch's Python knows (`logical_and_`,
/// `fill_diagonal_`): registers, once, kernels for them that change nothing. Called before
/// recordings.
void add_meta_kernels();

}  // namespace wide
