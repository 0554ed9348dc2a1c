#pragma once
#include <algorithm>
#include <optional>

#include "engine/network.h"
#include "engine/widen/widen.h"

namespace wide {

/// Gradients of sum(outputs * cotangents) for `of`, undefined for tensors that no output depends
/// on; without cotangents, outputs must be scalars. Frees what autograd saved.
Tensors gradients_of(const Tensors& outputs, const Tensors& of, const Tensors& cotangents = {});

/// Results of a forward pass and its backward pass.
struct ForwardAndBack {
  std::vector<WideValue> made;       // results of the forward pass, detached
  std::vector<bool> differentiable;  // by cotangent: its output depends on `of`
  std::vector<bool> attached;        // by `made`: has a gradient history
  Tensors gradients;                 // by `of`; zeros if no output depends on it
  std::vector<bool> reached;         // by `of`: whether an output depends on it
};

/// Runs `forward` on `bound` and differentiates sum(made * cotangents) for `of`, indices in
/// `bound`: for one model, or for N at once, as the sum over models gives each model's gradients.
/// `cotangents` are for the first results of `forward`; results with undefined ones are left out.
/// Throws Unsupported, naming `thing`, for an operator without a gradient.
ForwardAndBack forward_and_back(
    const std::string& thing, std::vector<WideValue> bound, const std::vector<size_t>& of,
    const Tensors& cotangents,
    const std::function<std::vector<WideValue>(const std::vector<WideValue>&)>& forward);

/// Where the cotangents of a program's outputs come from.
enum class Cotangents {
  bound,  // they are inputs, after the program's own
  ones    // ones: scalar outputs are summed
};

/// Bytes that PyTorch needs for a training step of one model beside the network's tensors.
struct StepBytes {
  int64_t saved = 0;    // outputs, and what autograd saves until the backward pass
  int64_t working = 0;  // what the backward pass adds to them at its peak
  int64_t results = 0;  // outputs and gradients

  /// Of n separate models, if all forward passes run before the backward passes.
  int64_t of(int64_t n) const { return std::max(n * saved + working, n * results); }
};

/// By output of a program recorded with `grad`, then by `of`, indices of bound tensors: whether a
/// gradient flows from the output to the tensor.
std::vector<std::vector<bool>> dependences(const Program& program, const std::vector<size_t>& of);

/// A network's forward pass together with its gradients, recorded as one program. Its inputs are
/// the network's tensors, then, for `Cotangents::bound`, a cotangent for each floating output; it
/// returns the outputs, the gradients for `of`, then the updates.
class WithGradients {
 public:
  /// `thing`: named in messages. `single`: recorded with `grad`. `of`: indices of the tensors that
  /// get gradients.
  /// `outputs`: by output, whether it may have a cotangent; empty: all.
  WithGradients(std::string thing, Program single, std::vector<size_t> of, Cotangents from,
                const std::vector<bool>& outputs = {});

  /// A stand-in for Program(1) of the whole, with its names, sizes and random operators.
  const Program& form() const { return form_; }
  const std::vector<size_t>& of() const { return of_; }
  size_t outputs() const { return single_.outputs.size(); }
  /// By output: index of its cotangent among the bound tensors; -1 for integers,
  /// `Cotangents::ones`, and outputs that may have none.
  const std::vector<int64_t>& cotangents() const { return cotangents_; }

  /// `evaluate_wide` of the whole. The gradient for a tensor that all models share is the sum over
  /// these models, `[1, ...]`; zeros if there is none.
  std::vector<WideValue> evaluate(int64_t n, const std::vector<WideValue>& bound,
                                  const WidenOptions& options, Coverage* coverage);
  /// The forward pass alone, in which all strategies are chosen: calls see which of their inputs
  /// get gradients, but nothing is saved for a backward pass.
  std::vector<WideValue> forward(int64_t n, const std::vector<WideValue>& bound,
                                 const WidenOptions& options, Coverage* coverage) const;
  /// Calls the network with one model's tensors, under autograd, and counts; nullopt if a recorded
  /// call is differentiable only by a strategy, such as attention for its mask.
  std::optional<StepBytes> step_bytes_of_one(const Tensors& bound) const;
  /// For the last evaluation: by output, whether it depends on any of `of`; and by `of`, whether
  /// any output depends on it.
  const std::vector<bool>& differentiable() const { return differentiable_; }
  const std::vector<bool>& reached() const { return reached_; }
  /// For the last evaluation, by update: whether the new value has a gradient history, its target
  /// not being one of `of`.
  const std::vector<bool>& attached() const { return attached_; }
  /// Whether a gradient flows from the output to `of()[k]`.
  bool depends(size_t output, size_t k) const { return depends_[output][k]; }

 private:
  std::vector<WideValue> own(const std::vector<WideValue>& bound) const;
  Tensors cotangents_for(int64_t n, const std::vector<WideValue>& bound) const;

  std::string thing_;
  Program single_, form_;
  std::vector<size_t> of_;
  Cotangents from_;
  std::vector<int64_t> cotangents_;
  std::vector<std::vector<bool>> depends_;  // by output, then by `of`
  std::vector<bool> differentiable_, reached_, attached_;
};

}  // namespace wide
