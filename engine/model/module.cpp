#include "engine/model/module.h"

#include "engine/error.h"

namespace wide {

void detail::refuse_arguments(size_t count) {
  fail(
      "[module] forward: got {} tensors, expected as many as it takes, at most 8; try a sample "
      "with its inputs",
      count);
}

}  // namespace wide
