#pragma once
#include "app/python/bindings/callbacks.h"

namespace nwide {

/// torch.nn.functional.cross_entropy of each of N models as one node of autograd: `scores` [N, B,
/// C] and classes `target` [N, B] (int64) give the mean over each model's rows, [N]. Rows of class
/// `ignore_index` are left out. float32 or float64 on the CPU. One node, because PyTorch's separate
/// operators take as long as a small model's whole program. Throws c10::IndexError for a class out
/// of bounds.
wide::Tensor cross_entropy(const wide::Tensor& scores, const wide::Tensor& target,
                           int64_t ignore_index);

/// torch.nn.functional.mse_loss of each of N models as one node: tensors [N, ...] of equal shape
/// and dtype, float32 or float64 on the CPU, give [N].
wide::Tensor mse_loss(const wide::Tensor& output, const wide::Tensor& target);

}  // namespace nwide
