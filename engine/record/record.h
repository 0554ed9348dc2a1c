#pragma once
#include "engine/program.h"

namespace wide {

/// A tensor that a recording knows from the start.
struct Binding {
  std::string name;
  Role role = Role::input;
  Tensor tensor;
  bool wide = false;
};

/// Records what `function` does below autograd and vmap as a flat program without mutation.
/// `function` gets the bound tensors wrapped, in order, and returns its outputs; nothing it does
/// in place reaches the bound tensors themselves: such changes become `updates`.
/// Refuses operators whose result shape or value depends on data, by name. Called with grad mode on
/// it keeps where the code turns it off (`Node::grad`); with it off it takes all as on.
Program record(const std::vector<Binding>& bindings,
               const std::function<Tensors(const Tensors&)>& function, int64_t n = 0);

/// True while this thread records.
bool recording();

/// Tags the nodes recorded while it lives.
class OriginScope {
 public:
  explicit OriginScope(Origin origin);
  ~OriginScope();
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

 private:
  Origin previous_;
  bool active_;
};

/// The number of nodes recorded so far, and the way back to it after a failed attempt.
size_t recorded_nodes();
void roll_back(size_t nodes);
/// What `say` answers, first, to a node recorded after that many; "" where it has nothing to say.
std::string first_recorded(size_t nodes,
                           const std::function<std::string(const Program&, const Node&)>& say);

/// A call that is replaced while recording, e.g. an operator whose schema hides a mutation or
/// that has no form the widening understands. `function` takes the arguments off the stack and
/// leaves results of the same types; `applies` sees the arguments.
struct Decomposition {
  std::string op;  // "aten::native_batch_norm"
  std::string why;
  std::function<bool(c10::ArrayRef<IValue>)> applies;
  std::function<void(Stack&)> function;
};
/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_decomposition(Decomposition decomposition);

}  // namespace wide
