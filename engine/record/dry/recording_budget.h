#pragma once
#include "engine/program.h"

namespace wide {

/// While it lives, a recording that begins on this thread ends with std::bad_alloc once its calls
/// made more than so many bytes. They are counted whole, also those that were freed since.
class RecordingBudget {
 public:
  explicit RecordingBudget(int64_t bytes);
  ~RecordingBudget();
  RecordingBudget(const RecordingBudget&) = delete;
  RecordingBudget& operator=(const RecordingBudget&) = delete;

  bool exceeded() const { return left_ < 0; }

 private:
  friend void count_made(const Program&, const Node&);
  int64_t left_;
};

/// Takes what a recorded call made from this thread's budget, where there is one.
void count_made(const Program& program, const Node& node);

}  // namespace wide
