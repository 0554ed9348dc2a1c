#pragma once
#include "app/python/bindings/callbacks.h"

namespace nwide {

/// A step of the engine's optimiser of this name, in place. `parameters` to `shared` have an entry
/// for each parameter of N models; a Python object per parameter would cost more than a small
/// parameter's step. `states`: only those in `kept`, which of the optimiser's states exist.
/// `steps`: counted from 1. `shared`: the parameter is shared by all models. `hyper`: `[N, H]`, or
/// `[1, H]` where it is the same for all models; float64, in the order of the optimiser's
/// hyperparameters.
void optimizer_step(const std::string& name, const wide::Tensors& parameters,
                    const wide::Tensors& gradients, const std::vector<wide::Tensors>& states,
                    const std::vector<int64_t>& steps, const std::vector<bool>& shared,
                    const std::vector<bool>& kept, const wide::Tensor& hyper);

/// By optimiser: its hyperparameters (name, default, minimum, maximum) and its states (name, the
/// hyperparameter that needs it).
py::dict optimizer_table();

}  // namespace nwide
