#pragma once
#include <functional>
#include <vector>

#include "engine/model/module.h"
#include "engine/network.h"

namespace wide {

/// How a network comes to be once its inputs' sizes are known.
using NetworkSource = std::function<Network(const std::vector<TensorSpec>& inputs)>;

/// Of a module's tensors that are defined, each once, in order; a tied one under its first name.
std::vector<TensorSpec> specs_of(const Module& module);

/// The code of `module` with other tensors in the place of its own, which `specs` are of.
NetworkSource network_source(const Module& module, const std::vector<TensorSpec>& specs);

/// The tensors of N modules of one architecture, `[N, ...]`, or without N where shared.
struct PackedModules {
  std::vector<TensorSpec> specs;
  Tensors weights;
  std::vector<bool> shared;
};
/// With `share`, tensors that are equal in all modules are kept once. Throws Error for no module,
/// and for modules whose tensors differ in name.
PackedModules pack_modules(const std::vector<Module>& models, bool share);

}  // namespace wide
