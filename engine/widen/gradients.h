#pragma once
#include "engine/network.h"
#include "engine/widen/widen.h"

namespace wide {

/// Gradients of sum(outputs * cotangents) by `of`, undefined where nothing depends on one; without
/// cotangents outputs are numbers. What autograd has kept for it is gone afterwards.
Tensors gradients_of(const Tensors& outputs, const Tensors& of, const Tensors& cotangents = {});

/// A forward pass and the way back.
struct ForwardAndBack {
  std::vector<WideValue> made;  // by the forward pass, of which autograd knows nothing any more
  std::vector<bool> differentiable;  // by cotangent: whether its output depends on any of `of`
  Tensors gradients;                 // by `of`, of its sizes; zeros where no output depends on it
  std::vector<bool> reached;         // by `of`: whether one does
};

/// Runs `forward` on `bound` and differentiates sum(made * cotangents) by `of`, positions in
/// `bound`: for one model, or for N at once, whose sum has the gradients of each. `cotangents` by
/// what `forward` makes, from its first result on; an undefined one is of no interest. Throws
/// Unsupported, in the name of `thing`, for an operator that has no gradient.
ForwardAndBack forward_and_back(
    const std::string& thing, std::vector<WideValue> bound, const std::vector<size_t>& of,
    const Tensors& cotangents,
    const std::function<std::vector<WideValue>(const std::vector<WideValue>&)>& forward);

/// Where the cotangents of a program's outputs come from.
enum class Cotangents {
  bound,  // they are inputs, behind the program's own
  ones    // the outputs, numbers, are added up
};

/// A network's forward pass together with its gradients, recorded as one program. It is bound to
/// the network's tensors, then to a cotangent for each output that gradients can come from, if they
/// come in; it returns the outputs, the gradients by `of`, then the updates.
class WithGradients {
 public:
  /// `thing`: what messages are about. `single`: recorded for being differentiated. `of`: what
  /// gradients are for, by index.
  WithGradients(std::string thing, Program single, std::vector<size_t> of, Cotangents from);

  /// What stands for the whole where Program(1) is asked for: names, sizes, random operators.
  const Program& form() const { return form_; }
  const std::vector<size_t>& of() const { return of_; }
  size_t outputs() const { return single_.outputs.size(); }
  /// By output: the index of its cotangent among the bound tensors; -1 for whole numbers, and where
  /// none comes in.
  const std::vector<int64_t>& cotangents() const { return cotangents_; }

  /// `evaluate_wide` of the whole. The gradient by a tensor that all models share is the sum over
  /// these models, `[1, ...]`; zeros where there is none.
  std::vector<WideValue> evaluate(int64_t n, const std::vector<WideValue>& bound,
                                  const WidenOptions& options, Coverage* coverage);
  /// The forward pass alone, for choosing strategies: all are chosen there, and nothing is kept for
  /// a way back.
  std::vector<WideValue> forward(int64_t n, const std::vector<WideValue>& bound,
                                 const WidenOptions& options, Coverage* coverage) const;
  /// Of the last evaluation: by output, whether it depends on anything of `of`, and by `of`,
  /// whether any output depends on it.
  const std::vector<bool>& differentiable() const { return differentiable_; }
  const std::vector<bool>& reached() const { return reached_; }

 private:
  std::vector<WideValue> own(const std::vector<WideValue>& bound) const;
  Tensors cotangents_for(int64_t n, const std::vector<WideValue>& bound) const;

  std::string thing_;
  Program single_, form_;
  std::vector<size_t> of_;
  Cotangents from_;
  std::vector<int64_t> cotangents_;
  std::vector<bool> differentiable_, reached_;
};

}  // namespace wide
