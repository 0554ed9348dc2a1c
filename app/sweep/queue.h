#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace wide {

/// Cases that wait for a worker, and how often each was lost together with the one that had it.
class CaseQueue {
 public:
  /// Numbers of cases below `count`, in the order in which they are handed out.
  CaseQueue(std::vector<size_t> order, size_t count)
      : waiting_(order.begin(), order.end()), lost_(count) {}

  bool empty() const { return waiting_.empty(); }
  /// The next one, which whoever takes it has to finish or give back; nullopt: none waits.
  std::optional<size_t> take() {
    if (waiting_.empty()) return std::nullopt;
    const size_t next = waiting_.front();
    waiting_.pop_front();
    return next;
  }
  /// Lost with its worker: the next one to be taken. Returns how often that has happened to it.
  int give_back(size_t index) {
    waiting_.push_front(index);
    return ++lost_.at(index);
  }

 private:
  std::deque<size_t> waiting_;
  std::vector<int> lost_;
};

}  // namespace wide
