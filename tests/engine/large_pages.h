#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace wide {

/// Whether the memory of `t` was asked to be in large pages, by the kernel's own account.
inline bool asked_for_large_pages(const at::Tensor& t) {
  std::ifstream maps("/proc/self/smaps");
  const auto middle = reinterpret_cast<uintptr_t>(t.data_ptr()) + t.nbytes() / 2;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = begin <= middle && middle < end;
    else if (inside && line.rfind("VmFlags:", 0) == 0)
      return line.find(" hg") != std::string::npos;
  }
  return false;
}

}  // namespace wide
