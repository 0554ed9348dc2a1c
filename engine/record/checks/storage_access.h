#pragma once
#include "engine/program.h"

namespace wide {

// `as_strided` and its kin find elements by their places in a storage, whatever the tensor covers
// that they are given. The values of a program have no storage of their own: they are slices of
// all models' tensors, or lie in an arena. So such a call is recorded as one that picks the same
// elements by their numbers in a value.

/// Places in a storage, in elements.
struct Positions {
  Sizes sizes, strides;
  int64_t offset = 0;
};
/// Those of a tensor's elements.
Positions positions_of(const Tensor& tensor);

/// Whether the operator is of this kind, and its tensors hold anything.
bool accesses_storage(const c10::OperatorHandle& op, const Stack& stack);

/// The arguments of such a call.
struct StorageCall {
  StorageCall(const c10::OperatorHandle& op, const Stack& stack);

  Tensor self, source;  // `source`: what is put there; undefined where elements are read
  Positions at;
};

/// For every place the row-major number of the element of `whole` that lies there, or -1.
Tensor elements_at(const Tensor& whole, const Positions& at);
/// Whether every place holds an element of `whole`.
bool has_all(const Tensor& whole, const Positions& at);

/// A copy or view of the elements at `at`, all of which `whole` has; sizes are those of `at`.
Tensor pick_elements(const Tensor& whole, const Positions& at);
/// `self` with the elements of `source` at `at`; those at places that `self` does not have go lost.
Tensor put_elements(const Tensor& self, const Tensor& source, const Positions& at);

}  // namespace wide
