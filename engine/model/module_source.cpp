#include "engine/model/module_source.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/model/packing.h"
#include "engine/record/substitution.h"

namespace wide {
namespace {

/// A model's defined tensors, each once; a tied one under its first name.
NamedTensors own_tensors(const Module& module, std::vector<TensorSpec>* specs) {
  NamedTensors own;
  for (const Role role : {Role::parameter, Role::buffer})
    for (const auto& [name, t] : role == Role::parameter ? module.parameters : module.buffers) {
      const bool known = std::ranges::any_of(
          own, [&, &tensor = t](const auto& o) { return o.second.is_same(tensor); });
      if (!t.defined() || known) continue;
      own.emplace_back(name, t);
      if (specs)
        specs->push_back({name, role, t.sizes().vec(),
                          at::isFloatingType(t.scalar_type()) ? at::kFloat : t.scalar_type(),
                          Fill::normal, 1.0});
    }
  return own;
}

bool all_equal(const std::vector<NamedTensors>& models, size_t k) {
  return std::ranges::all_of(models, [&](const NamedTensors& own) {
    return at::equal(own[k].second, models.front()[k].second);
  });
}

}  // namespace

std::vector<TensorSpec> specs_of(const Module& module) {
  std::vector<TensorSpec> specs;
  own_tensors(module, &specs);
  return specs;
}

NetworkSource network_source(const Module& module, const std::vector<TensorSpec>& specs) {
  Tensors held;
  for (const auto& [name, t] : own_tensors(module, nullptr)) held.push_back(t);
  return [module, held, specs](const std::vector<TensorSpec>& inputs) {
    Network network;
    network.name = "modules";
    network.tensors = inputs;
    network.tensors.insert(network.tensors.end(), specs.begin(), specs.end());
    network.forward = [module, held, count = inputs.size()](const Tensors& bound) {
      const auto middle = bound.begin() + static_cast<std::ptrdiff_t>(count);
      const Substitution others(held, Tensors(middle, bound.end()));
      Tensors outputs = module.forward(Tensors(bound.begin(), middle));
      for (Tensor& t : outputs)  // an input or weight that is returned directly
        if (const Tensor* other = t.defined() ? Substitution::stand_in(t) : nullptr) t = *other;
      return outputs;
    };
    network.instantiate = module.instantiate;
    return network;
  };
}

PackedModules pack_modules(const std::vector<Module>& models, bool share) {
  const at::NoGradGuard no_grad;
  if (models.empty()) fail("[compile] models: got none, expected at least one; try one for each");
  PackedModules packed;
  std::vector<NamedTensors> all;
  for (const Module& model : models)
    all.push_back(own_tensors(model, all.empty() ? &packed.specs : nullptr));
  std::vector<Tensors> separate(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const NamedTensors& first = all.front();
    for (size_t k = 0; k < std::max(all[i].size(), first.size()); ++k) {
      const std::string got = k < all[i].size() ? all[i][k].first : "none";
      const std::string expected = k < first.size() ? first[k].first : "none";
      if (got != expected)
        fail(
            "[compile] tensor {} of model {}: got {}, expected {} as of model 0; try models of "
            "one architecture",
            k, i, got, expected);
      separate[i].push_back(all[i][k].second.detach());
    }
  }
  for (size_t k = 0; k < packed.specs.size(); ++k)
    packed.shared.push_back(share && all_equal(all, k));
  packed.weights = pack(separate, packed.shared);
  // Sharing is by value, not by memory, so that the caller's training does not change these.
  for (size_t k = 0; k < packed.weights.size(); ++k)
    if (packed.shared[k]) packed.weights[k] = packed.weights[k].clone();
  return packed;
}

}  // namespace wide
