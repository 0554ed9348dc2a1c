#include "app/sandbox/policy.h"

#include <filesystem>

namespace wide {

int64_t SandboxPolicy::bytes() const {
  int64_t sum = 0;
  for (const std::string& path : read) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) sum += static_cast<int64_t>(size);
  }
  return sum;
}

}  // namespace wide
