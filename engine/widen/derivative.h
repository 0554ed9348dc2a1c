#pragma once
#include <mutex>

#include "engine/network.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/widen/widen.h"

namespace wide {

/// Indices of a derived network's tensors.
struct DerivativeLayout {
  std::vector<size_t> of;          // differentiable tensors of the inner network
  std::vector<size_t> outputs;     // real outputs of the inner network
  std::vector<size_t> cotangents;  // one for each of them
  const Optimizer* optimizer = nullptr;
  size_t rate = 0, state = 0;  // of a step: learning rates; first state tensor
};

/// The computation of a derived network: the forward pass of `inner`, the gradients of sum(output *
/// cotangent) over all floating outputs, and for `step` an optimiser's step with them. Callers pass
/// the forward pass, of one model or of N, so that all ways of running N models share the rest.
class Derivative {
 public:
  /// Maps the tensors of `inner`, without N or all wide, to its outputs.
  using Forward = std::function<Tensors(const Tensors&)>;

  /// `step`: the optimiser, or nullptr for gradients only.
  Derivative(Network inner, Program single, const Optimizer* step);

  const Network& inner() const { return inner_; }
  const Program& single() const { return single_; }  // Program(1) of `inner`
  DerivativeLayout layout() const;
  /// The tensors of the derived network: those of `inner` first.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }

  /// Runs the phase on `bound`. `n` is 0 for one model. Returns gradients for the differentiable
  /// tensors of `inner`; for a step the new parameters, then the new state.
  Tensors run(const Tensors& bound, const Forward& forward, int64_t n) const;
  /// The phase of one model as users write it: changes parameters and state in place, by ATen's
  /// fused optimisers if they exist.
  Tensors run_in_place(const Tensors& bound) const;
  /// `evaluate_wide` of the phase, using Program(1) of `inner`.
  std::vector<WideValue> evaluate(int64_t n, const std::vector<WideValue>& bound,
                                  const WidenOptions& options, Coverage* coverage) const;
  /// Results that become tensors of the next call: (output, tensor).
  const std::vector<std::pair<size_t, size_t>>& feedback() const { return feedback_; }

 private:
  Tensors gradients(const Tensors& bound, const Forward& forward) const;
  Tensors step(const Tensors& bound, const Tensors& gradients, int64_t n) const;
  Tensors step_in_place(const Tensors& bound, const Tensors& gradients) const;
  Tensor defaults_on(c10::Device device) const;

  Network inner_;
  Program single_;
  const Optimizer* step_;
  std::vector<TensorSpec> tensors_;
  std::vector<size_t> of_;       // differentiable tensors of `inner`, by index
  std::vector<size_t> outputs_;  // real outputs of `inner`
  size_t cotangents_ = 0;        // index of the first
  size_t rate_ = 0, state_ = 0;  // of a step: learning rates; first state tensor
  size_t moments_ = 0;           // tensors of state for each parameter
  Tensor defaults_;              // hyperparameters after the learning rate, float64
  mutable Tensor elsewhere_;     // copy of `defaults_` on the device that last used it
  mutable std::mutex mutex_;     // guards elsewhere_
  std::vector<std::pair<size_t, size_t>> feedback_;
};

/// The network of phase `forward`, `backward` or `step` of `inner`; `single` is its Program(1).
/// A step is that of the optimiser of this name ("": the default of phase `step`) with its default
/// hyperparameters, at a late step. Cotangents and, for a step, parameters, learning rates and
/// state are inputs. Throws Unsupported if there is nothing to differentiate.
Network phase_network(const Network& inner, const Program& single, const std::string& phase,
                      const std::string& optimizer = "");

}  // namespace wide
