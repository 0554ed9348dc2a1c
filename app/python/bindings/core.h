#pragma once
#include <atomic>
#include <mutex>

#include "app/python/bindings/callbacks.h"
#include "engine/wide.h"

namespace nwide {

/// Facts about one recording of a model, to compare two recordings.
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

/// State shared by a Core and the backward passes of its calls.
struct CoreState {
  wide::WideModel model;
  std::mutex mutex = {};                     // guards the model
  std::atomic<bool> differentiated = false;  // a backward pass has been seen
  std::vector<bool> used = {};               // by output, whether the last one had its cotangent
};

/// The C++ side of Python's `nwide.WideModule`: a WideModel whose weights are Python's tensors.
/// Calls from several threads are serialised.
class Core {
 public:
  /// `forward`: a function from one model's list of tensors to its list of outputs. `instantiate`:
  /// makes such a function of a separate model with the tensors given. `parameters`, `buffers`:
  /// those of the model that forward runs, by name. `shared`: which of these, by position, all
  /// models share.
  Core(py::object forward, py::object instantiate, const wide::NamedTensors& parameters,
       const wide::NamedTensors& buffers, wide::Tensors weights, std::vector<bool> shared,
       int64_t n, wide::Options options);

  /// Returns outputs `[N, ...]` and the weights that the call changed, as pairs of position and
  /// value. `weights` empty: those of the last call. In grad mode, outputs are connected to the
  /// tensors that require gradients.
  std::pair<wide::Tensors, Changed> run(const wide::Tensors& inputs, const wide::Tensors& weights);

  /// Calls `visit(model)` with the GIL released and the model locked.
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
