#pragma once
#include <unordered_map>

#include "engine/program.h"

namespace wide {

/// Tensors of the recorded code that share memory with others but not their gradient history:
/// results of `detach()`, and views taken under `no_grad`.
class Untracked {
 public:
  bool holds(const Tensor& tensor) const;
  /// Adds the result of a view's call with first argument `self`, if it is untracked.
  void note_view(const c10::OperatorHandle& op, const IValue& self, const Stack& stack);

 private:
  // Held weakly: their addresses are not reused, so no later tensor is mistaken for one of these.
  std::unordered_map<const c10::TensorImpl*, c10::weak_intrusive_ptr<c10::TensorImpl>> all_;
};

/// The tensors that a call changes in place unseen by autograd: under `no_grad`, or through a
/// detached alias. In PyTorch such a tensor keeps its history, so its gradient passes unchanged to
/// the tensor before the change. A recording without mutation has a new value instead, which is
/// marked by `aten::copy(before, after)` with grad mode off (see `written_over`).
class UntrackedWrites {
 public:
  /// Before the call: collects the tensors that it will change.
  UntrackedWrites(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments,
                  const Untracked& untracked);
  /// After the call: records the copies, and gives their results to all aliases. A tensor whose
  /// size or dtype the call changed keeps its history.
  void record() const;

 private:
  struct One {
    Tensor written, before;  // `before`: the whole memory of which `written` is a view
    bool tracked;
    bool apart;  // a detached tensor that takes the history of what is written
  };
  std::vector<One> all_;
};

}  // namespace wide
