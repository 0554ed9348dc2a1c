#pragma once
#include "app/python/bindings/callbacks.h"

namespace nwide {

/// Parameters of N models, one entry each in every list. (A Python object per parameter would cost
/// more than a small parameter's step.)
struct Stepped {
  wide::Tensors parameters, gradients;
  std::vector<wide::Tensors> states;  // by parameter, only the states in `kept`
  std::vector<int64_t> steps;         // counted from 1
  std::vector<bool> shared;           // the parameter is shared by all models
};

/// A step of the engine's optimiser of this name, in place. `hyper`: `[N, H]`, or `[1, H]` where it
/// is the same for all models; float64, in the order of the optimiser's hyperparameters. `kept`:
/// which of the optimiser's states exist.
void optimizer_step(const std::string& name, Stepped parameters, const std::vector<bool>& kept,
                    const wide::Tensor& hyper);

/// By optimiser: its hyperparameters (name, default, minimum, maximum) and its states (name, the
/// hyperparameter that needs it).
py::dict optimizer_table();

}  // namespace nwide
