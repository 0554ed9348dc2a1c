#include "engine/measure/vmapped.h"

#include <ATen/Functions.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>

#include "engine/record/process_switch.h"

namespace wide {
namespace {

struct Layer {
  int64_t level;
  explicit Layer(int64_t n)
      : level(at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Vmap,
                                                     c10::SymInt(n),
                                                     at::functorch::RandomnessType::Different)) {}
  ~Layer() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
};

struct Batched {
  Tensor value;
  int64_t dimension;  // dimension of the models; -1: the same for all
};

std::vector<Batched> call_batched(const std::function<Tensors(const Tensors&)>& function,
                                  const Tensors& arguments, const std::vector<bool>& shared,
                                  int64_t n) {
  const VmapFallbackOff no_fallback;
  const Layer layer(n);
  Tensors inner;
  for (size_t k = 0; k < arguments.size(); ++k)
    inner.push_back(shared[k] ? arguments[k]
                              : at::functorch::addBatchDim(arguments[k], 0, layer.level));
  std::vector<Batched> results;
  for (const Tensor& result : function(inner)) {
    const auto* batched = at::functorch::maybeGetBatchedImpl(result);
    if (batched && batched->level() == layer.level)
      results.push_back({batched->value(), batched->bdim()});
    else
      results.push_back({result, -1});
  }
  return results;
}

}  // namespace

Tensors vmapped(const std::function<Tensors(const Tensors&)>& function, const Tensors& arguments,
                const std::vector<bool>& shared, int64_t n) {
  Tensors results;
  // A result that is the same for all models is repeated.
  for (const auto& [value, dimension] : call_batched(function, arguments, shared, n))
    results.push_back(dimension >= 0 ? value.movedim(dimension, 0) : expanded(n, value));
  return results;
}

}  // namespace wide
