#pragma once
#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "engine/model/module.h"

namespace nwide {

namespace py = pybind11;

/// A Python object that C++ may hold, copy and release on any thread, with or without the GIL.
std::shared_ptr<py::object> held(py::object object);

/// A Python callable from a list of tensors to a list of tensors. Takes the GIL for the call.
std::function<wide::Tensors(const wide::Tensors&)> tensor_function(py::object callable);

}  // namespace nwide
