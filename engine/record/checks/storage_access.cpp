#include "engine/record/checks/storage_access.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace wide {

namespace {

/// Dispatcher keys to leave out, so that computations here are not recorded.
const c10::DispatchKeySet kUnrecorded({c10::DispatchKey::Fake, c10::DispatchKey::DeferredInit,
                                       c10::DispatchKey::Functionalize});

/// All places, row-major, as a tensor.
Tensor listed(const Positions& at) {
  Tensor places = at::full({}, at.offset, at::kLong);
  for (size_t d = 0; d < at.sizes.size(); ++d)
    places = places.unsqueeze(-1) + at::arange(at.sizes[d]) * at.strides[d];
  return places.reshape({-1});
}

/// Whether all places lie in the memory of `whole`, without listing them.
bool in_memory(const Tensor& whole, const Positions& at) {
  const auto end = static_cast<int64_t>(whole.storage().nbytes() / whole.element_size());
  int64_t last = at.offset;
  for (size_t d = 0; d < at.sizes.size(); ++d) {
    int64_t reach = 0;
    if (at.sizes[d] == 0) return true;
    if (__builtin_mul_overflow(at.sizes[d] - 1, at.strides[d], &reach) || reach < 0 ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return at.offset >= 0 && last < end;
}

bool all_there(const Tensor& elements) {
  return elements.numel() == 0 || elements.min().item<int64_t>() >= 0;
}

}  // namespace

Positions positions_of(const Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()};
}

bool accesses_storage(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& name = op.schema().operator_name();
  if (name.name.rfind("aten::as_strided", 0) != 0 || !name.overload_name.empty()) return false;
  const Tensor& self = stack[stack.size() - op.schema().arguments().size()].toTensor();
  return !self.is_meta() && !op.schema().is_mutable();
}

StorageCall::StorageCall(const c10::OperatorHandle& op, const Stack& stack) {
  const IValue* argument = &stack[stack.size() - op.schema().arguments().size()];
  self = argument++->toTensor();
  if (op.schema().argumentIndexWithName("src")) source = argument++->toTensor();
  at.sizes = argument[0].toIntVector();
  at.strides = argument[1].toIntVector();
  at.offset = argument[2].isNone() ? self.storage_offset() : argument[2].toInt();
}

Tensor elements_at(const Tensor& whole, const Positions& at) {
  const c10::impl::ExcludeDispatchKeyGuard off(kUnrecorded);
  const at::NoGradGuard no_grad;
  const Tensor places = listed(at);
  if (whole.is_contiguous()) {
    const Tensor elements = places - whole.storage_offset();
    return elements.masked_fill(elements.ge(whole.numel()).logical_or(elements.lt(0)), -1);
  }
  const Tensor own = listed(positions_of(whole));
  if (own.numel() == 0 || places.numel() == 0) return at::full_like(places, -1);
  const int64_t last = std::max(own.max().item<int64_t>(), places.max().item<int64_t>());
  return at::full({last + 1}, -1, at::kLong)
      .scatter_(0, own, at::arange(own.numel()))
      .index_select(0, places);
}

bool has_all(const Tensor& whole, const Positions& at) {
  const c10::impl::ExcludeDispatchKeyGuard off(kUnrecorded);
  return in_memory(whole, at) && all_there(elements_at(whole, at));
}

Tensor pick_elements(const Tensor& whole, const Positions& at) {
  const Tensor elements = elements_at(whole, at);
  int64_t first = -1;  // the first of consecutive elements; -1: not consecutive
  {
    const c10::impl::ExcludeDispatchKeyGuard off(kUnrecorded);
    if (elements.numel() > 0) {
      const int64_t begin = elements[0].item<int64_t>();
      if (elements.equal(at::arange(begin, begin + elements.numel()))) first = begin;
    }
  }
  const Tensor flat = whole.reshape({-1});
  return (first >= 0 ? flat.narrow(0, first, elements.numel())
                     : flat.index_select(0, elements.to(whole.device())))
      .reshape(at.sizes);
}

Tensor put_elements(const Tensor& self, const Tensor& source, const Positions& at) {
  Tensor elements = elements_at(self, at), flat = source.reshape({-1});
  if (!all_there(elements)) {
    Tensor kept;
    {
      const c10::impl::ExcludeDispatchKeyGuard off(kUnrecorded);
      kept = elements.ge(0).nonzero().flatten();
      elements = elements.index_select(0, kept);
    }
    flat = flat.index_select(0, kept.to(self.device()));
  }
  return self.reshape({-1})
      .index_copy(0, elements.to(self.device()), flat.to(self.scalar_type()))
      .reshape(self.sizes());
}

}  // namespace wide
