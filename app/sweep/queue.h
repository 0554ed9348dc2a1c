#pragma once
#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace wide {

/// Cases that wait for a worker, and how often each was lost together with its worker.
class CaseQueue {
 public:
  /// `order`: positions of cases, below `count`, in the order in which they are handed out.
  CaseQueue(std::vector<size_t> order, size_t count)
      : waiting_(order.begin(), order.end()), lost_(count) {}

  bool empty() const { return waiting_.empty(); }
  /// Takes the next case that fits; the caller must finish it or give it back. nullopt: none fits.
  template <class Fits>
  std::optional<size_t> take(const Fits& fits) {
    const auto at = std::ranges::find_if(waiting_, fits);
    if (at == waiting_.end()) return std::nullopt;
    const size_t next = *at;
    waiting_.erase(at);
    return next;
  }
  /// The next case, whether it fits or not. The queue must not be empty.
  size_t front() const { return waiting_.front(); }
  /// Puts a case whose worker was lost back to the front. Returns how often that has happened to
  /// it.
  int give_back(size_t index) {
    waiting_.push_front(index);
    return ++lost_.at(index);
  }

 private:
  std::deque<size_t> waiting_;
  std::vector<int> lost_;
};

}  // namespace wide
