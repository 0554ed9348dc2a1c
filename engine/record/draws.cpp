#include "engine/record/draws.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "engine/error.h"
#include "engine/record/process_switch.h"

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

void redispatch_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          std::vector<c10::IValue>* stack) {
  const std::string& name = op.schema().name();
  const bool recurrent = name == "aten::lstm" || name == "aten::gru" || name == "aten::rnn_tanh" ||
                         name == "aten::rnn_relu";
  std::optional<CudnnOff> cudnn_off;
  if (recurrent && active != nullptr) cudnn_off.emplace();
  op.redispatchBoxed(keys, stack);
}

}  // namespace wide
