#pragma once
#include <torch/csrc/jit/api/module.h>

#include <string>

namespace wide {

/// Loads a file of torch.jit.save on the CPU. Unless `trusted` (`--trust`), all methods of a class,
/// `__setstate__` included, are compiled and checked before an object of it is made: a class that
/// calls an operator outside the reviewed list (allowed_operators.h) never runs, and C++ classes
/// are refused. Always refused: archives of PyTorch before 1.4 (model.json), and files that
/// decompress or nest beyond fixed limits (torchscript_bounds.h). Throws Error, or LibTorch's
/// exceptions.
torch::jit::Module load_torchscript(const std::string& path, bool trusted);

/// Whether a file is an archive of torch.jit.save. Reads only the zip directory.
bool is_torchscript(const std::string& path);

}  // namespace wide
