#pragma once
#include <memory>

#include "engine/program.h"

namespace wide {

/// While it exists, operators that this thread calls on a tensor of `own` get the one of `instead`
/// with the same index: for recording or running code that holds its weights, a torch::nn::Module
/// or a lambda, with other weights. Does not nest.
class Substitution {
 public:
  Substitution(const Tensors& own, const Tensors& instead);
  ~Substitution();
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

  /// Whether this thread has one; and its replacement for `own`, or nullptr.
  static bool active();
  static const Tensor* stand_in(const Tensor& own);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// While it exists, memory that TorchScript's interpreter allocates and fills for a literal
/// (`torch.tensor([1., 2.])`) is real also while this thread records; its contents at the first
/// read are a constant of the recording. Does not nest.
class LiteralScope {
 public:
  LiteralScope();
  ~LiteralScope();
  LiteralScope(const LiteralScope&) = delete;
  LiteralScope& operator=(const LiteralScope&) = delete;

  /// Whether this thread has a LiteralScope.
  static bool active();
};

}  // namespace wide
