#pragma once
#include <memory>

#include "engine/program.h"

namespace wide {

/// While it lives, operators that this thread calls on a tensor of `own` work on the one of
/// `instead` at its place: how code that holds its weights itself, a torch::nn::Module or a lambda,
/// is recorded or run with others. Does not nest.
class Substitution {
 public:
  Substitution(const Tensors& own, const Tensors& instead);
  ~Substitution();
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

  /// Whether one lives in this thread, and what it puts in the place of `own`, or null.
  static bool active();
  static const Tensor* stand_in(const Tensor& own);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// While it lives, the memory that an interpreter allocates for a literal (`torch.tensor([1., 2.])`
/// in TorchScript) and fills by itself is real memory also while this thread records; what it holds
/// when an operator first reads it is a constant of the recording. Does not nest.
class LiteralScope {
 public:
  LiteralScope();
  ~LiteralScope();
  LiteralScope(const LiteralScope&) = delete;
  LiteralScope& operator=(const LiteralScope&) = delete;

  /// Whether one lives in this thread.
  static bool active();
};

}  // namespace wide
