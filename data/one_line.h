#pragma once
#include <exception>
#include <string>

namespace wide {

/// What an exception says, in one line: LibTorch appends stack traces, TorchScript prepends them.
std::string one_line(const std::exception& error);

/// Whether it says that memory is wanted which the machine does not have.
bool is_out_of_memory(const std::exception& error);

}  // namespace wide
