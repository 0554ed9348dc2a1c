#pragma once
#include "engine/network.h"
#include "engine/widen/widen.h"

namespace wide {

/// Gradients of sum(outputs * cotangents) by `of`; undefined where nothing depends on one. Throws
/// Unsupported, in the name of `thing`, for an operator that has no gradient.
Tensors differentiate(const std::string& thing, const Tensors& outputs, const Tensors& of,
                      const Tensors& cotangents);

/// A network's forward pass together with its gradients, recorded as one program. It is bound to
/// the network's tensors, then to a cotangent for each output that gradients can come from; it
/// returns the outputs, the gradients by `of`, then the updates.
class WithGradients {
 public:
  /// `single`: recorded for being differentiated. `of`: what gradients are for, by index.
  WithGradients(Program single, std::vector<size_t> of);

  /// What stands for the whole where Program(1) is asked for: names, sizes, random operators.
  const Program& form() const { return form_; }
  const std::vector<size_t>& of() const { return of_; }
  size_t outputs() const { return single_.outputs.size(); }
  /// By output: the index of its cotangent among the bound tensors, or -1 for whole numbers.
  const std::vector<int64_t>& cotangents() const { return cotangents_; }

  /// `evaluate_wide` of the whole. The gradient by a tensor that all models share is the sum over
  /// these models, `[1, ...]`; zeros where there is none.
  std::vector<WideValue> evaluate(int64_t n, const std::vector<WideValue>& bound,
                                  const WidenOptions& options, Coverage* coverage);
  /// Of the last evaluation: by output, whether it depends on anything of `of`, and by `of`,
  /// whether any output depends on it.
  const std::vector<bool>& differentiable() const { return differentiable_; }
  const std::vector<bool>& reached() const { return reached_; }

 private:
  Program single_, form_;
  std::vector<size_t> of_;
  std::vector<int64_t> cotangents_;
  std::vector<bool> differentiable_, reached_;
};

}  // namespace wide
