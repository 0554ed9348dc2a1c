#include "engine/lower/memory/result_memory.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "engine/machine/large_pages.h"

namespace wide {

const Tensors& ResultMemory::next(const Executor& executor) {
  const auto free = [](const Tensors& results) {
    return std::ranges::all_of(results, [](const Tensor& t) {
      return !t.defined() || (t.use_count() == 1 && t.storage().use_count() == 1);
    });
  };
  for (Tensors& results : results_)
    if (!results.empty() && free(results)) return fitted(results, executor);
  std::swap(results_[0], results_[1]);
  results_[0].clear();
  results_[0].resize(executor.results().size());
  return fitted(results_[0], executor);
}

/// The block with memory for exactly those results that the executor does not give.
const Tensors& ResultMemory::fitted(Tensors& results, const Executor& executor) {
  for (size_t k = 0; k < results.size(); ++k) {
    if (executor.gives(k)) {
      results[k].reset();
    } else if (!results[k].defined()) {
      const Value v = executor.results()[k];
      results[k] = empty_to_keep(v.sizes, at::TensorOptions().dtype(v.dtype).device(v.device));
    }
  }
  return results;
}

}  // namespace wide
