#include "engine/lower/compiled_model.h"

#include <algorithm>

#include "engine/widen/derivative.h"

namespace wide {

std::function<void()> repeated_call(CompiledModel& model, const Network& network,
                                    const Tensors& inputs) {
  if (!network.derivative || network.derivative->feedback().empty())
    return [&model, inputs] { model.run(inputs); };
  std::vector<std::pair<size_t, size_t>> back;  // output, input
  const std::vector<size_t> at = network.indices(true);
  for (const auto& [output, tensor] : network.derivative->feedback())
    back.emplace_back(output,
                      static_cast<size_t>(std::find(at.begin(), at.end(), tensor) - at.begin()));
  return [&model, back, state = inputs]() mutable {
    const Tensors results = model.run(state);
    for (const auto& [output, input] : back) state[input] = results[output];
  };
}

}  // namespace wide
