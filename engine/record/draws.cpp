#include "engine/record/draws.h"

#include "engine/error.h"

namespace wide {
namespace {
thread_local DrawsByCounter* active = nullptr;
}  // namespace

DrawsByCounter::DrawsByCounter(Tensor seed_, Tensor step_, Tensor dropout_)
    : seed(std::move(seed_)), step(std::move(step_)), dropout(std::move(dropout_)) {
  WIDE_ASSERT(active == nullptr, "draws by counter do not nest");
  active = this;
}

DrawsByCounter::~DrawsByCounter() { active = nullptr; }

DrawsByCounter* draws_by_counter() { return active; }

}  // namespace wide
