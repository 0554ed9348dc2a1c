#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace wide {

/// What an exception says, in one line: LibTorch appends stack traces, TorchScript prepends them.
std::string one_line(const std::exception& error);

/// Whether a message of LibTorch, the system or the C++ library says that memory ran out.
bool speaks_of_memory(std::string_view words);
bool is_out_of_memory(const std::exception& error);

}  // namespace wide
