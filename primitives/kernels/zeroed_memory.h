#pragma once
#include <cstddef>
#include <vector>

namespace wide::kernels {

/// Zeroed memory for a padded image, which a thread keeps between calls: the padding need not be
/// written again.
inline float* zeroed_memory(size_t floats) {
  thread_local std::vector<float> memory;
  memory.assign(floats, 0.0F);
  return memory.data();
}

}  // namespace wide::kernels
