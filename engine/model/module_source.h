#pragma once
#include <functional>
#include <vector>

#include "engine/model/module.h"
#include "engine/network.h"

namespace wide {

/// Makes a network for inputs of known sizes.
using NetworkSource = std::function<Network(const std::vector<TensorSpec>& inputs)>;

/// Specs of a module's defined tensors, each once, in order; a tied one under its first name.
/// Floating dtypes become float32.
std::vector<TensorSpec> specs_of(const Module& module);

/// Networks that run the code of `module` with other tensors, described by `specs`, instead of its
/// own.
NetworkSource network_source(const Module& module, const std::vector<TensorSpec>& specs);

/// The tensors of N modules of one architecture, `[N, ...]`, or without N if shared.
struct PackedModules {
  std::vector<TensorSpec> specs;
  Tensors weights;
  std::vector<bool> shared;
};
/// Packs the tensors of modules; with `share`, tensors that are equal in all are stored once.
/// Throws Error if there is no module, or names, sizes or dtypes differ.
PackedModules pack_modules(const std::vector<Module>& models, bool share);

}  // namespace wide
