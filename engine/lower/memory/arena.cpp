#include "engine/lower/memory/arena.h"

#include <algorithm>
#include <numeric>

#include "engine/machine/large_pages.h"

namespace wide {

ArenaLayout place(const std::vector<Lifetime>& lifetimes) {
  constexpr int64_t kAlign = 64;
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  auto rounded = [](int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };
  std::vector<size_t> placed;
  for (size_t i : order) {
    std::vector<std::pair<int64_t, int64_t>> taken;  // [offset, end), alive meanwhile
    for (size_t j : placed)
      if (lifetimes[j].begin <= lifetimes[i].end && lifetimes[i].begin <= lifetimes[j].end)
        taken.emplace_back(layout.offsets[j], layout.offsets[j] + rounded(lifetimes[j].bytes));
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= rounded(lifetimes[i].bytes)) break;
      at = std::max(at, end);
    }
    layout.offsets[i] = at;
    layout.bytes = std::max(layout.bytes, at + rounded(lifetimes[i].bytes));
    placed.push_back(i);
  }
  return layout;
}

void ArenaMemory::reserve(int64_t bytes, c10::Device device) {
  if (bytes <= this->bytes()) return;
  block_.reset();
  block_ = empty_to_keep({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

}  // namespace wide
