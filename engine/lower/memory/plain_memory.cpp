#include "engine/lower/memory/plain_memory.h"

#include <ATen/ATen.h>

namespace wide {

Tensor in_plain_memory(const Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg() ? tensor.clone(at::MemoryFormat::Contiguous)
                                             : tensor.contiguous();
}

Tensor resolved(const Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) return tensor;
  const Tensor made = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  Tensor from = tensor, to = made;  // an expanded tensor's elements are written once
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1) {
      from = from.narrow(d, 0, 1);
      to = to.narrow(d, 0, 1);
    }
  to.copy_(from);
  return made;
}

}  // namespace wide
