#pragma once
#include <atomic>
#include <mutex>

#include "app/python/bindings/callbacks.h"
#include "engine/wide.h"

namespace nwide {

/// What one recording of a model saw, to tell two of them apart.
struct Recorded {
  std::string program;               // as text
  wide::Tensors constants;           // that it captured, in order
  std::vector<std::string> updates;  // names of what it changes, inputs among them
  bool random = false;               // draws random numbers
};
/// Records `forward` on one model's `inputs`; arguments as those of Core.
Recorded record(py::object forward, const wide::NamedTensors& parameters,
                const wide::NamedTensors& buffers, const wide::Tensors& inputs,
                const std::vector<std::string>& input_names);

/// Weights that a call replaced: position and value.
using Changed = std::vector<std::pair<size_t, wide::Tensor>>;

/// What a Core and its calls' backward passes hold together.
struct CoreState {
  wide::WideModel model;
  std::mutex mutex = {};                     // of the model
  std::atomic<bool> differentiated = false;  // a backward pass has been seen
};

/// What Python's `nwide.WideModule` stands on: a WideModel whose weights live in Python. Several
/// threads may call one; they take turns.
class Core {
 public:
  /// `forward`: one model's tensors in, its tensors out, in a row. `instantiate`: a separate model
  /// with the tensors given, as such a function. `parameters`, `buffers`: of the model that forward
  /// runs, by name. `shared`: of these, by position, which are the same for all models.
  Core(py::object forward, py::object instantiate, const wide::NamedTensors& parameters,
       const wide::NamedTensors& buffers, wide::Tensors weights, std::vector<bool> shared,
       int64_t n, wide::Options options);

  /// Outputs `[N, ...]`, then what the call changed, as pairs of a weight's position and value.
  /// `weights` empty: as they were in the last call. Outputs depend on what requires gradients
  /// where grad mode is on.
  std::pair<wide::Tensors, Changed> run(const wide::Tensors& inputs, const wide::Tensors& weights);

  /// `visit(model)` with the GIL released, while nobody else runs it.
  template <class Visit>
  auto with(Visit visit) {
    const py::gil_scoped_release released;
    const std::lock_guard lock(state_->mutex);
    return visit(state_->model);
  }

 private:
  std::shared_ptr<CoreState> state_;
};

}  // namespace nwide
