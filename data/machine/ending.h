#pragma once
#include <string>

// Text about the end of a process, for messages.
namespace wide {

/// "SIGSEGV (Segmentation fault)".
std::string signal_text(int signal);
/// The last line that is not empty of what a process printed, made printable: it often has the
/// reason.
std::string last_line(const std::string& printed);

}  // namespace wide
