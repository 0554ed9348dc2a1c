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
  at::ScalarType dtype = at::kFloat;  // kFloat stands for the dtype asked for
  Fill fill = Fill::normal;
  double scale = 1.0;  // of normal: standard deviation; of integers: the exclusive upper bound
};

/// One model with its own weights, called as its users call it.
using Model = std::function<Tensors(const Tensors& inputs)>;

class Derivative;

/// One architecture: which tensors a model has and what it does with them. `forward` gets all
/// tensors in the order of `tensors` and is what is recorded; `instantiate` gives the model as
/// its users run it (a TorchScript module with its own weights, a C++ function), for baselines.
struct Network {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::function<Tensors(const Tensors& bound)> forward;
  std::function<Model(const Tensors& weights)> instantiate;
  bool random = false;             // draws random numbers: checked by statistics, not by value
  bool training = false;           // updates buffers
  std::vector<std::string> notes;  // said to the user, e.g. tied weights found
  /// Further names of tied weights: name in a checkpoint to the name in `tensors`.
  std::map<std::string, std::string> aliases;
  /// One model's weights (in the order of `indices(false)`) as its file holds them; may be empty.
  Tensors initial;
  /// Set where `forward` differentiates another network's forward pass: made wide, the gradients
  /// are those of its wide forward pass (engine/widen/derivative.h).
  std::shared_ptr<const Derivative> derivative;

  std::vector<size_t> indices(bool inputs) const;  // of inputs, or of weights (the others)
};

/// `forward` with the weights bound: the instantiate of networks that are C++ functions.
Model bind(const Network& network, const Tensors& weights);

/// N models' tensors: for every entry of `network.tensors` one tensor `[N, ...]`, or without N
/// where `shared`.
struct Ensemble {
  int64_t n = 0;
  Tensors tensors;
  std::vector<bool> shared;

  /// Model i's own tensors, as views.
  Tensors model(int64_t i) const;
  /// `count` models from `begin` on, as views.
  Ensemble models(int64_t begin, int64_t count) const;
  /// Where all of it lies; the CPU where there is nothing.
  c10::Device device() const;
};

/// Distinct weights and inputs for every model, reproducible from `seed`.
Ensemble generate(const Network& network, int64_t n, at::ScalarType dtype, c10::Device device,
                  uint64_t seed);

}  // namespace wide
