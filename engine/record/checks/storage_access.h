#pragma once
#include "engine/program.h"

namespace wide {

// `as_strided` and its kin address elements by their place in the storage, even outside the tensor
// that they get. Values of a program have no own storage: they are slices of all models' tensors,
// or lie in an arena. So such a call is recorded as one that picks the same elements by their index
// in a value.

/// Places in a storage, in elements.
struct Positions {
  Sizes sizes, strides;
  int64_t offset = 0;
};
/// The places of a tensor's elements.
Positions positions_of(const Tensor& tensor);

/// Whether the operator is of this kind, and its tensors have elements.
bool accesses_storage(const c10::OperatorHandle& op, const Stack& stack);

/// The arguments of such a call.
struct StorageCall {
  StorageCall(const c10::OperatorHandle& op, const Stack& stack);

  Tensor self, source;  // `source`: elements to write; undefined for reads
  Positions at;
};

/// For every place the row-major index of the element of `whole` there, or -1.
Tensor elements_at(const Tensor& whole, const Positions& at);
/// Whether every place holds an element of `whole`.
bool has_all(const Tensor& whole, const Positions& at);

/// A copy or view, with the sizes of `at`, of the elements at `at`, all of which `whole` has.
Tensor pick_elements(const Tensor& whole, const Positions& at);
/// `self` with the elements of `source` written at `at`; places outside `self` are ignored.
Tensor put_elements(const Tensor& self, const Tensor& source, const Positions& at);

}  // namespace wide
