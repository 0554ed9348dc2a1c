#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/model/wide_impl.h"
#include "engine/record/substitution.h"
#include "engine/widen/target.h"

namespace wide {

void detail::refuse_arguments(size_t count) {
  fail(
      "[module] forward: got {} tensors, expected as many as it takes, at most 8; try a sample "
      "with its inputs",
      count);
}

namespace {

/// A model's tensors that are defined, each once: a tied one under its first name.
NamedTensors own_tensors(const Module& module, std::vector<TensorSpec>* specs) {
  NamedTensors own;
  for (const Role role : {Role::parameter, Role::buffer})
    for (const auto& [name, t] : role == Role::parameter ? module.parameters : module.buffers) {
      const bool known = std::any_of(own.begin(), own.end(), [&, &tensor = t](const auto& o) {
        return o.second.is_same(tensor);
      });
      if (!t.defined() || known) continue;
      own.emplace_back(name, t);
      if (specs)
        specs->push_back({name, role, t.sizes().vec(),
                          at::isFloatingType(t.scalar_type()) ? at::kFloat : t.scalar_type(),
                          Fill::normal, 1.0});
    }
  return own;
}

/// The first module's code with other tensors in the place of its own.
WideModel::Source source_of(const Module& module, const NamedTensors& own,
                            const std::vector<TensorSpec>& specs) {
  Tensors held;
  for (const auto& [name, t] : own) held.push_back(t);
  return [module, held, specs](const std::vector<TensorSpec>& inputs) {
    Network network;
    network.name = "modules";
    network.tensors = inputs;
    network.tensors.insert(network.tensors.end(), specs.begin(), specs.end());
    network.forward = [module, held, count = inputs.size()](const Tensors& bound) {
      const auto middle = bound.begin() + static_cast<std::ptrdiff_t>(count);
      const Substitution others(held, Tensors(middle, bound.end()));
      return module.forward(Tensors(bound.begin(), middle));
    };
    network.instantiate = module.instantiate;
    if (!network.instantiate) {
      const Network self = network;
      network.instantiate = [self](const Tensors& weights) { return bind(self, weights); };
    }
    return network;
  };
}

struct Packed {
  std::vector<TensorSpec> specs;
  Tensors weights;
  std::vector<bool> shared;
};

bool all_equal(const std::vector<NamedTensors>& models, size_t k) {
  return std::all_of(models.begin(), models.end(), [&](const NamedTensors& own) {
    return at::equal(own[k].second, models.front()[k].second);
  });
}

Packed pack_modules(const std::vector<Module>& models, bool share) {
  const at::NoGradGuard no_grad;
  if (models.empty()) fail("[compile] models: got none, expected at least one; try one for each");
  Packed packed;
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
  // Sharing is by value, not by memory: a caller's training goes on without us.
  for (size_t k = 0; k < packed.weights.size(); ++k)
    if (packed.shared[k]) packed.weights[k] = packed.weights[k].clone();
  return packed;
}

}  // namespace

WideModel::Source source_of(const Module& module, std::vector<TensorSpec>* specs) {
  const NamedTensors own = own_tensors(module, specs);
  return source_of(module, own, *specs);
}

WideModel compile(const std::vector<Module>& models, const Tensors& sample,
                  const Options& options) {
  Packed packed = pack_modules(models, options.share_weights);
  const NamedTensors own = own_tensors(models.front(), nullptr);
  return WideModel(source_of(models.front(), own, packed.specs), packed.specs, packed.weights,
                   packed.shared, static_cast<int64_t>(models.size()), sample, options);
}

WideModel compile(const Module& model, int64_t n, const Tensors& sample, const Options& options) {
  if (n < 1) fail("[compile] models: got {}, expected at least 1; try n = 1", n);
  return compile(std::vector<Module>(static_cast<size_t>(n), model), sample, options);
}

WideModel from_modules(const std::string& primitive, const std::vector<Module>& modules,
                       const PrimitiveOptions& options) {
  const Target& target = find_target(primitive);
  if (target.kind != Kind::primitive)
    fail("[{}] primitive: got a {}, expected a primitive; try wide::compile", primitive,
         to_string(target.kind));
  Options own = options.options;
  if (!options.strategy.empty()) own.strategies[primitive] = options.strategy;
  WideModel model = compile(modules, {}, own);
  model.impl_->primitive = primitive;
  model.impl_->strict = !options.strategy.empty();
  return model;
}

}  // namespace wide
