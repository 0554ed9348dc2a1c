#pragma once
#include <mutex>
#include <unordered_map>

#include "engine/program.h"

namespace wide {

/// Tensors that recorded code uses without a binding: masks, tables, literals. Each is wrapped at
/// its first use, so that in-place operations on it are recorded like those on bound tensors.
class Captured {
 public:
  /// The tensor that is recorded in place of this one; null: the tensor itself. The pointer stays
  /// valid.
  const Tensor* wrapped(const Tensor& tensor);

  /// Adds memory that the interpreter allocated for a literal, which may be written to.
  void add_literal(const Tensor& memory);

  /// Throws Error if the code wrote to a captured tensor that is no literal.
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
