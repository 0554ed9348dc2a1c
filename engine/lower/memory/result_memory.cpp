#include "engine/lower/memory/result_memory.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "engine/machine/large_pages.h"

namespace wide {

const Tensors& ResultMemory::next(const Executor& executor) {
  const auto free = [](const Tensors& results) {
    return std::all_of(results.begin(), results.end(), [](const Tensor& t) {
      return t.use_count() == 1 && t.storage().use_count() == 1;
    });
  };
  for (const Tensors& results : results_)
    if (!results.empty() && free(results)) return results;
  std::swap(results_[0], results_[1]);
  results_[0].clear();
  for (const Value& v : executor.results())
    results_[0].push_back(
        empty_to_keep(v.sizes, at::TensorOptions().dtype(v.dtype).device(v.device)));
  return results_[0];
}

}  // namespace wide
