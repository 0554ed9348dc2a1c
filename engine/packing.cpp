#include "engine/packing.h"

#include <ATen/ATen.h>

#include "engine/error.h"

namespace wide {

Tensors pack(const std::vector<Tensors>& separate, const std::vector<bool>& shared) {
  if (separate.empty()) fail("[pack] models: got none, expected at least one; try one for each");
  Tensors wide;
  const size_t count = separate.front().size();
  for (size_t k = 0; k < count; ++k) {
    const Tensor& first = separate.front()[k];
    if (k < shared.size() && shared[k]) {
      wide.push_back(first);
      continue;
    }
    Tensors column;
    for (size_t i = 0; i < separate.size(); ++i) {
      if (separate[i].size() != count)
        fail("[pack] tensors of model {}: got {}, expected {} as of model 0; try the same for all",
             i, separate[i].size(), count);
      const Tensor& t = separate[i][k];
      if (t.sizes() != first.sizes() || t.scalar_type() != first.scalar_type())
        fail(
            "[pack] tensor {} of model {}: got {}, expected {} as of model 0; try models of one "
            "architecture",
            k, i, describe(t).shape_text(), describe(first).shape_text());
      column.push_back(t);
    }
    wide.push_back(at::stack(column));
  }
  return wide;
}

std::vector<Tensors> unpack(const Tensors& wide, int64_t n) {
  std::vector<Tensors> separate(static_cast<size_t>(n));
  for (const Tensor& t : wide) {
    const Tensors each = t.unbind(0);
    for (size_t i = 0; i < separate.size(); ++i) separate[i].push_back(each.at(i));
  }
  return separate;
}

}  // namespace wide
