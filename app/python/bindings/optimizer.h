#pragma once
#include "app/python/bindings/callbacks.h"

namespace nwide {

/// One parameter of N models, or of all as one, and what is kept of it between steps.
struct Stepped {
  wide::Tensor parameter, gradient;
  wide::Tensors state;  // as the optimiser's states
  int64_t step = 1;     // counted from 1
  bool shared = false;  // one for all models
};

/// A step of the engine's optimiser of this name, in place. `hyper`: `[N, H]`, or `[1, H]` where it
/// is the same for all models; float64, in the order of the optimiser's hyperparameters. `kept`:
/// which of the states there are.
void optimizer_step(const std::string& name, std::vector<Stepped> parameters,
                    const std::vector<bool>& kept, const wide::Tensor& hyper);

/// What every optimiser has: by name its hyperparameters (name, default, least, most) and its
/// states (name, what they are kept with).
py::dict optimizer_table();

}  // namespace nwide
