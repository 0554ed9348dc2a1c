#include "engine/lower/memory/arena.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "engine/machine/large_pages.h"

namespace wide {
namespace {

/// Up to here allocating memory for each call would take longer than some calls.
constexpr int64_t kSmall_bytes = 32 << 10;

int64_t aligned(int64_t bytes) {
  constexpr int64_t kAlign = 64;
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

ArenaLayout place(const std::vector<Lifetime>& lifetimes, const std::vector<Lent>& lent,
                  const std::vector<BufferPlace>& fixed) {
  ArenaLayout layout;
  layout.places = fixed;
  layout.places.resize(lifetimes.size());
  std::vector<size_t> placed(fixed.size()), order(lifetimes.size() - fixed.size());
  std::iota(placed.begin(), placed.end(), 0);
  std::iota(order.begin(), order.end(), fixed.size());
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  // What is lent for the shortest time first: who lives long can use only the others.
  std::vector<int64_t> choices(lent.size());
  std::iota(choices.begin(), choices.end(), 0);
  std::ranges::stable_sort(choices, [&](int64_t a, int64_t b) {
    return lent[static_cast<size_t>(a)].until < lent[static_cast<size_t>(b)].until;
  });
  choices.push_back(-1);
  for (const size_t i : order) {
    const int64_t bytes = aligned(lifetimes[i].bytes);
    for (const int64_t choice : choices) {
      const Lent* const in = choice < 0 ? nullptr : &lent[static_cast<size_t>(choice)];
      if (in != nullptr && (in->until <= lifetimes[i].end || in->bytes < bytes)) continue;
      std::vector<std::pair<int64_t, int64_t>> taken;  // [offset, end) of neighbours in time
      for (const size_t j : placed)
        if (layout.places[j].lent == choice && lifetimes[j].begin <= lifetimes[i].end &&
            lifetimes[i].begin <= lifetimes[j].end)
          taken.emplace_back(layout.places[j].offset,
                             layout.places[j].offset + aligned(lifetimes[j].bytes));
      std::ranges::sort(taken);
      int64_t at = 0;
      for (const auto& [begin, end] : taken) {
        if (begin - at >= bytes) break;
        at = std::max(at, end);
      }
      if (in != nullptr && at + bytes > in->bytes) continue;
      layout.places[i] = {choice, at};
      if (in == nullptr) layout.bytes = std::max(layout.bytes, at + bytes);
      break;
    }
    placed.push_back(i);
  }
  return layout;
}

void ArenaMemory::reserve(int64_t bytes, c10::Device device) {
  if (bytes <= bytes_) return;
  bytes_ = bytes;
  block_.reset();
  if (!device.is_cpu() || bytes <= kSmall_bytes)
    block_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

ArenaLease::ArenaLease(const Arenas& arenas) {
  for (const auto& arena : arenas)
    if (arena->bytes_ > 0 && !arena->block_.defined()) {
      arena->block_ = empty_to_reuse({arena->bytes_}, at::kByte, arena->reused_from_);
      taken_.push_back(arena);
    }
}

// In reverse, so that in the next call each thread gets the memory that is in its cache.
ArenaLease::~ArenaLease() {
  for (auto arena = taken_.rbegin(); arena != taken_.rend(); ++arena) (*arena)->block_.reset();
}

}  // namespace wide
