#include "engine/lower/plain_memory.h"

#include <ATen/ATen.h>

namespace wide {

Tensor in_plain_memory(const Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg() ? tensor.clone(at::MemoryFormat::Contiguous)
                                             : tensor.contiguous();
}

}  // namespace wide
