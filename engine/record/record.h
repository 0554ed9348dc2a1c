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
/// `function` gets the bound tensors wrapped, in order, and returns its outputs; its in-place
/// changes do not reach the bound tensors but become `updates`. Refuses operators whose result's
/// shape or value depends on data, by name. If called with grad mode on, records where the code
/// turns it off (`Node::grad`); else every node counts as on.
Program record(const std::vector<Binding>& bindings,
               const std::function<Tensors(const Tensors&)>& function, int64_t n = 0);

/// Whether the code of one model that this thread recorded last still holds tensors that it made,
/// such as one appended to a list: tensors without values.
bool recorded_are_held();

/// True while this thread records.
bool recording();

/// Tags the nodes that are recorded while it exists.
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

/// The number of nodes recorded so far; `roll_back` removes later ones after a failed attempt.
size_t recorded_nodes();
void roll_back(size_t nodes);
/// The first text other than "" that `say` returns for nodes after the first `nodes`, or "".
std::string first_recorded(size_t nodes,
                           const std::function<std::string(const Program&, const Node&)>& say);

/// Replaces a call while recording, such as an operator with an undeclared mutation or without a
/// wide form. `function` returns results of the same types; `applies` decides by the arguments.
struct Decomposition {
  std::string op;  // "aten::native_batch_norm"
  std::string why;
  std::function<bool(c10::ArrayRef<IValue>)> applies;
  std::function<Stack(c10::ArrayRef<IValue>)> function;
};
/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_decomposition(Decomposition decomposition);

}  // namespace wide
