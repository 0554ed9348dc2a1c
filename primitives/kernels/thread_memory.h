#pragma once
#include <cstdint>
#include <vector>

namespace wide::kernels {

/// Memory that a thread keeps between calls for each `Owner`, aligned to a cache line; its contents
/// are undefined.
template <class Owner>
float* thread_memory(int64_t floats) {
  constexpr size_t kLine = 16;
  thread_local std::vector<float> memory;
  const size_t wanted = static_cast<size_t>(floats) + kLine;
  if (memory.size() < wanted) memory.resize(wanted);
  const size_t past = reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % kLine;
  return memory.data() + (kLine - past) % kLine;
}

}  // namespace wide::kernels
