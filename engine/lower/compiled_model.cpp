#include "engine/lower/compiled_model.h"

#include <algorithm>

#include "engine/widen/derivative.h"

namespace wide {

std::function<Tensors()> CompiledModel::repeated(const Tensors& inputs, const FedBack& back) {
  return [this, back, state = inputs]() mutable {
    Tensors results = run(state);
    for (const auto& [output, input] : back) state[input] = results[output];
    return results;
  };
}

std::function<void()> repeated_call(CompiledModel& model, const Network& network,
                                    const Tensors& inputs) {
  FedBack back;
  if (!network.derivative) return model.repeated(inputs, back);
  const std::vector<size_t> at = network.indices(true);
  for (const auto& [output, tensor] : network.derivative->feedback())
    back.emplace_back(output, static_cast<size_t>(std::ranges::find(at, tensor) - at.begin()));
  return model.repeated(inputs, back);
}

}  // namespace wide
