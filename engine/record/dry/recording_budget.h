#pragma once
#include "engine/program.h"

namespace wide {

/// While it exists, a recording that begins on this thread ends with std::bad_alloc once results of
/// its calls exceed this many bytes in total, freed ones included.
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

/// Subtracts a recorded call's results from this thread's budget, if there is one.
void count_made(const Program& program, const Node& node);

}  // namespace wide
