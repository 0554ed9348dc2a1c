#pragma once
#include "app/python/bindings/callbacks.h"

namespace nwide {

/// Parameters of N models, one entry each in every list. Lists, as a Python object for each
/// parameter takes longer than a small parameter's step.
struct Stepped {
  wide::Tensors parameters, gradients;
  std::vector<wide::Tensors> states;  // by parameter, those that are kept
  std::vector<int64_t> steps;         // counted from 1
  std::vector<bool> shared;           // one for all models
};

/// A step of the engine's optimiser of this name, in place. `hyper`: `[N, H]`, or `[1, H]` where it
/// is the same for all models; float64, in the order of the optimiser's hyperparameters. `kept`:
/// which of the optimiser's states there are.
void optimizer_step(const std::string& name, Stepped parameters, const std::vector<bool>& kept,
                    const wide::Tensor& hyper);

/// What every optimiser has: by name its hyperparameters (name, default, least, most) and its
/// states (name, what they are kept with).
py::dict optimizer_table();

}  // namespace nwide
