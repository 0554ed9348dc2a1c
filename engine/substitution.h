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

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The first operator of this thread's recording after that many nodes that is not ATen's, or whose
/// result has a layout of its own; "" when there is none.
std::string recorded_outside_aten(size_t nodes);

}  // namespace wide
