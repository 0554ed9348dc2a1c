#pragma once
#include <torch/csrc/jit/api/module.h>

#include <string>

namespace wide {

/// Loads what torch.jit.save wrote, on the CPU. Unless `trusted`, every function of a class is
/// compiled and read before an object of it is made, `__setstate__` included, so that nothing runs
/// that calls more than the list allows (allowed_operators.h); custom classes of C++ are refused.
/// Archives of PyTorch before 1.4 (model.json) and such as would inflate or nest beyond measure are
/// refused always. Throws Error, or what LibTorch throws.
torch::jit::Module load_torchscript(const std::string& path, bool trusted);

/// Whether a file is an archive of torch.jit.save; reads its directory alone.
bool is_torchscript(const std::string& path);

}  // namespace wide
