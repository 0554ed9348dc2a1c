#pragma once
#include <string>

// How the end of a process is told to the user.
namespace wide {

/// "SIGSEGV (Segmentation fault)".
std::string signal_text(int signal);
/// The last line that is not empty of what a process printed, made printable: it often says why the
/// process ended.
std::string last_line(const std::string& printed);

}  // namespace wide
