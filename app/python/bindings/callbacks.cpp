#include "app/python/bindings/callbacks.h"

namespace nwide {

std::shared_ptr<py::object> held(py::object object) {
  return {new py::object(std::move(object)), [](py::object* own) {
            if (!Py_IsInitialized()) return;  // the interpreter has ended and freed everything
            const py::gil_scoped_acquire gil;
            delete own;
          }};
}

std::function<wide::Tensors(const wide::Tensors&)> tensor_function(py::object callable) {
  return [own = held(std::move(callable))](const wide::Tensors& tensors) {
    const py::gil_scoped_acquire gil;
    return (*own)(tensors).cast<wide::Tensors>();
  };
}

}  // namespace nwide
