#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace wide {

/// An exception's message as one line, without the stack traces of LibTorch and TorchScript.
std::string one_line(const std::exception& error);

/// Whether a message of LibTorch, the system or the C++ library says that memory ran out.
bool speaks_of_memory(std::string_view words);
bool is_out_of_memory(const std::exception& error);

}  // namespace wide
