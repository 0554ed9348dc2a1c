#pragma once
#include <torch/csrc/jit/api/module.h>

namespace wide {

/// Whether the code of a module's forward names another device than `device`, as a trace does: the
/// one that it was made on.
bool names_other_device(const torch::jit::Module& module, c10::Device device);

/// A copy of a module, of its classes and their methods, whose code names no device but `device`:
/// constant tensors of the code lie there. Attributes are shared.
torch::jit::Module placed_on(const torch::jit::Module& module, c10::Device device);

}  // namespace wide
