#include "app/python/bindings/core.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "app/python/bindings/carried.h"
#include "app/python/bindings/gradients.h"
#include "engine/compile.h"

namespace nwide {
namespace {

wide::Module module_of(py::object forward, const wide::NamedTensors& parameters,
                       const wide::NamedTensors& buffers) {
  wide::Module module;
  module.forward = tensor_function(std::move(forward));
  module.parameters = parameters;
  module.buffers = buffers;
  return module;
}

wide::WideModel make(wide::Module module, py::object instantiate, wide::Tensors weights,
                     std::vector<bool> shared, int64_t n, wide::Options options) {
  module.instantiate = [own = held(std::move(instantiate))](const wide::Tensors& tensors) {
    const py::gil_scoped_acquire gil;
    return tensor_function((*own)(tensors));
  };
  std::vector<wide::TensorSpec> specs;
  wide::WideModel::Source source = wide::source_of(module, &specs);
  return {std::move(source), std::move(specs), std::move(weights), std::move(shared), n, {},
          std::move(options)};
}

}  // namespace

Core::Core(py::object forward, py::object instantiate, const wide::NamedTensors& parameters,
           const wide::NamedTensors& buffers, wide::Tensors weights, std::vector<bool> shared,
           int64_t n, wide::Options options)
    : state_(new CoreState{make(module_of(std::move(forward), parameters, buffers),
                                std::move(instantiate), std::move(weights), std::move(shared), n,
                                std::move(options))}) {}

Recorded record(py::object forward, const wide::NamedTensors& parameters,
                const wide::NamedTensors& buffers, const wide::Tensors& inputs,
                const std::vector<std::string>& input_names) {
  const wide::Module module = module_of(std::move(forward), parameters, buffers);
  const py::gil_scoped_release released;
  std::vector<wide::TensorSpec> specs, sizes;
  const wide::WideModel::Source source = wide::source_of(module, &specs);
  wide::Ensemble one;
  one.n = 1;
  for (size_t k = 0; k < inputs.size(); ++k) {
    sizes.push_back(
        {input_names.at(k), wide::Role::input, inputs[k].sizes().vec(), inputs[k].scalar_type()});
    one.tensors.push_back(inputs[k].detach());
  }
  for (const auto* tensors : {&parameters, &buffers})
    for (const auto& [name, t] : *tensors) one.tensors.push_back(t.detach());
  one.shared.assign(one.tensors.size(), true);
  const wide::Program program = wide::record_single(source(sizes), one);
  Recorded out;
  out.program = program.text();
  for (const wide::Value& v : program.values)
    if (v.role == wide::Role::constant) out.constants.push_back(v.constant);
  for (const wide::Update& u : program.updates) out.updates.push_back(program.value(u.target).name);
  for (const wide::Node& node : program.nodes) out.random |= node.is_random();
  return out;
}

std::pair<wide::Tensors, Changed> Core::run(const wide::Tensors& inputs,
                                            const wide::Tensors& weights) {
  const bool grad = at::GradMode::is_enabled();  // the caller's grad mode
  // Results are never inference tensors, since a later call outside inference_mode may reuse their
  // memory.
  const c10::InferenceMode ordinary(false);
  std::pair<wide::Tensors, Changed> results;
  const auto requires_grad = [](const wide::Tensor& t) { return t.requires_grad(); };
  if (grad &&
      (std::ranges::any_of(inputs, requires_grad) || std::ranges::any_of(weights, requires_grad))) {
    const py::gil_scoped_release released;
    results.first = run_for_gradients(state_, inputs, weights, &results.second);
    return results;
  }
  const std::vector<size_t> held = carried().among(weights);
  with(
      [&](wide::WideModel& model) { results.first = model.run(inputs, weights, &results.second); });
  carried().keep(weights, held);
  for (const auto& [k, value] : results.second)
    if (k < weights.size()) carried().set(weights[k], false);
  return results;
}

}  // namespace nwide
