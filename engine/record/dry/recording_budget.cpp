#include "engine/record/dry/recording_budget.h"

#include <new>

#include "engine/error.h"

namespace wide {
namespace {

thread_local RecordingBudget* budget = nullptr;

}  // namespace

RecordingBudget::RecordingBudget(int64_t bytes) : left_(bytes) {
  WIDE_ASSERT(budget == nullptr, "budgets of recordings do not nest");
  budget = this;
}
RecordingBudget::~RecordingBudget() { budget = nullptr; }

void count_made(const Program& program, const Node& node) {
  if (budget == nullptr || node.is_view()) return;
  for_each_value(node.results, [&](ValueId id) { budget->left_ -= program.value(id).bytes(); });
  if (budget->exceeded()) throw std::bad_alloc();
}

}  // namespace wide
