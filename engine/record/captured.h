#pragma once
#include <mutex>
#include <unordered_map>

#include "engine/program.h"

namespace wide {

/// Tensors that the recorded code holds itself and that were not bound: masks, tables, literals.
/// Each is wrapped at its first use, so that in-place operations on it are recorded as on bound
/// tensors.
class Captured {
 public:
  /// The tensor that is recorded in place of this one; null: the tensor itself. The pointer stays
  /// valid.
  const Tensor* wrapped(const Tensor& tensor);

  /// Memory that an interpreter made by itself, and may write to.
  void add_literal(const Tensor& memory);

  /// Refuses a recording in which the code wrote to one that is no literal.
  void refuse_changes() const;

 private:
  struct One {
    Tensor tensor, wrapped;
    bool literal = false;
  };
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, One> all_;
};

}  // namespace wide
