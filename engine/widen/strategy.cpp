#include "engine/widen/strategy.h"

#include <fmt/format.h>

namespace wide {

std::string reason(const std::string& thing, const std::string& what, const std::string& got,
                   const std::string& expected, const std::string& advice) {
  return fmt::format("[{}] {}: got {}, expected {}; try {}", thing, what, got, expected, advice);
}

}  // namespace wide
