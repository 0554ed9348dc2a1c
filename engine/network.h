#pragma once
#include <map>
#include <memory>

#include "engine/record/record.h"

namespace wide {

/// How a tensor of a registered network is filled, differently for every model.
enum class Fill { normal, uniform, positive, near_one, zeros, integers };

/// A tensor that one model has: its role, name, sizes and, for generated networks, its filling.
struct TensorSpec {
  std::string name;
  Role role = Role::input;
  Sizes sizes;
  at::ScalarType dtype = at::kFloat;  // kFloat means the dtype of the run, unless `keeps_dtype`
  Fill fill = Fill::normal;
  double scale = 1.0;  // standard deviation of normal; exclusive upper bound of integers
  /// `dtype` is float32 in every run, as of a norm in a bfloat16 network.
  bool keeps_dtype = false;
  bool persistent = false;  // of buffers: the network's file says that every state_dict has it

  bool follows_run() const { return dtype == at::kFloat && !keeps_dtype; }
  at::ScalarType dtype_in(at::ScalarType run) const { return follows_run() ? run : dtype; }
  /// For a tensor of a file: one that has the file's own floating dtype follows the run.
  void set_dtype(at::ScalarType own, at::ScalarType file) {
    const bool follows = own == file && c10::isFloatingType(own);
    dtype = follows ? at::kFloat : own;
    keeps_dtype = own == at::kFloat && !follows;
  }
};

/// One model with its own weights, called as users call it.
using Model = std::function<Tensors(const Tensors& inputs)>;

class Derivative;

/// One architecture: the tensors of a model and its forward pass. `forward` gets all tensors in the
/// order of `tensors` and is recorded; `instantiate` makes the model as users run it (a TorchScript
/// module with its own weights), for baselines. Empty: a C++ function, `bind`.
struct Network {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::function<Tensors(const Tensors& bound)> forward;
  std::function<Model(const Tensors& weights)> instantiate = {};
  bool random = false;                  // draws random numbers: checked by statistics, not by value
  bool training = false;                // updates buffers
  std::vector<std::string> notes = {};  // messages for the user, e.g. tied weights found
  /// Other names of tied weights: a name in checkpoints to the name in `tensors`.
  std::map<std::string, std::string> aliases = {};
  /// One model's weights (in the order of `indices(false)`) as its file holds them; may be empty.
  Tensors initial = {};
  /// Set if `forward` differentiates another network's forward pass; then the gradients are made
  /// wide by differentiating its wide forward pass (engine/widen/derivative.h).
  std::shared_ptr<const Derivative> derivative = nullptr;

  std::vector<size_t> indices(bool inputs) const;  // of inputs, or else of weights
};

/// `forward` with the weights bound.
Model bind(const Network& network, const Tensors& weights);

/// N models' tensors: for every entry of `network.tensors` one tensor `[N, ...]`, or without N if
/// `shared`.
struct Ensemble {
  int64_t n = 0;
  Tensors tensors;
  std::vector<bool> shared;

  /// Model i's own tensors, as views.
  Tensors model(int64_t i) const;
  /// `count` models from `begin` on, as views.
  Ensemble models(int64_t begin, int64_t count) const;
  /// The device of all tensors; the CPU if there are none.
  c10::Device device() const;
};

/// Distinct weights and inputs for every model, reproducible from `seed`.
Ensemble generate(const Network& network, int64_t n, at::ScalarType dtype, c10::Device device,
                  uint64_t seed);

}  // namespace wide
