#pragma once
#include <unordered_map>

#include "engine/program.h"

namespace wide {

/// Tensors of the recorded code that share memory with others and not their gradient history: what
/// `detach()` returns, and views taken under `no_grad`.
class Untracked {
 public:
  bool holds(const Tensor& tensor) const;
  /// Looks at the call of a view whose first argument was `self`.
  void note_view(const c10::OperatorHandle& op, const IValue& self, const Stack& stack);

 private:
  // Held weakly: the address stays taken, so that no later tensor is mistaken for one of these.
  std::unordered_map<const c10::TensorImpl*, c10::weak_intrusive_ptr<c10::TensorImpl>> all_;
};

/// The tensors that a call changes in place without autograd seeing it: under `no_grad`, or through
/// a detached alias. For PyTorch such a tensor has other values and the same history, so that its
/// gradient passes unchanged to the tensor before the change. A recording without mutation has a
/// new value instead; `aten::copy(before, after)`, called with grad mode off, says what it is (see
/// `written_over`).
class UntrackedWrites {
 public:
  /// Before the call: what it is going to change.
  UntrackedWrites(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments,
                  const Untracked& untracked);
  /// After the call: records the copies, and lets all aliases see their results.
  void record() const;

 private:
  struct One {
    Tensor written, before;  // `before`: all of the memory that `written` is a view of
    bool tracked;
    bool apart;  // a detached tensor that gets the history of what is written to it
  };
  std::vector<One> all_;
};

}  // namespace wide
