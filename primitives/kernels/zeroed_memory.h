#pragma once
#include <cstddef>
#include <vector>

namespace wide::kernels {

/// Memory for a padded image that a thread keeps between calls, zero: what lies around the image
/// need not be written again for the next one.
inline float* zeroed_memory(size_t floats) {
  thread_local std::vector<float> memory;
  memory.assign(floats, 0.0F);
  return memory.data();
}

}  // namespace wide::kernels
