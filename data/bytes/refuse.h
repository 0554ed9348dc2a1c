#pragma once
#include <string>

#include "data/text.h"
#include "engine/error.h"

namespace wide {

/// Throws Error for a file that breaks the rules of its format: `[file] what: got .., expected ..`.
[[noreturn]] inline void refuse(const std::string& file, const std::string& what,
                                const std::string& got, const std::string& expected,
                                const std::string& advice = "save the file again") {
  throw Error(fmt::format("[{}] {}: got {}, expected {}; try to {}", printable(file), what, got,
                          expected, advice));
}

}  // namespace wide
