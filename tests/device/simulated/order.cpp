#include "tests/device/simulated/order.h"

#include <algorithm>

#include "engine/error.h"

namespace wide::simulated {

void join(Clock& clock, const Clock& other) {
  for (size_t s = 0; s < kStreams; ++s) clock[s] = std::max(clock[s], other[s]);
}

std::string Order::call(StreamId stream, const std::vector<Access>& accesses) {
  const auto at = static_cast<size_t>(stream);
  Clock& clock = clocks_[at];
  join(clock, host_);  // the host gives out this call after all that it has waited for
  const auto over = [](const Clock& known, const Past& p) {
    return known[static_cast<size_t>(p.stream)] >= p.count;
  };
  std::string fault;
  for (const Access& now : accesses) {
    const Block* block = Memory::get().block_of(now.begin);
    if (!block) continue;
    std::vector<Past>& past = past_[block->begin];
    for (const Past& p : past) {
      const bool overlap = p.access.begin < now.end && now.begin < p.access.end;
      if (!overlap || !(p.access.write || now.write) || over(clock, p) || !fault.empty()) continue;
      fault = fmt::format("a missing event: {} {} on stream {} what {} {} on stream {}", now.what,
                          now.write ? "writes" : "reads", stream, p.access.what,
                          p.access.write ? "writes" : "reads", p.stream);
    }
    // What is over for everybody, or comes before this call and lies within it, needs no memory.
    std::erase_if(past, [&](const Past& p) {
      const bool within = now.begin <= p.access.begin && p.access.end <= now.end;
      return over(host_, p) || (over(clock, p) && within && (now.write || !p.access.write));
    });
  }
  ++clock[at];
  for (const Access& now : accesses)
    if (const Block* block = Memory::get().block_of(now.begin))
      past_[block->begin].push_back({now, stream, clock[at]});
  return fault;
}

}  // namespace wide::simulated
