#pragma once
#include <ATen/core/function_schema.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/network.h"

namespace torch::jit {
struct Graph;
}

namespace wide {

/// Builds the arguments of a TorchScript forward from flat, named tensors: `x`, `batch.image` in a
/// dict, `states.0` in a list or tuple, nested to any depth. The structure is worked out once,
/// since the baselines call it for every model.
class ForwardCall {
 public:
  /// `names`: of the tensors, in the order in which they will be given. Throws Error for arguments
  /// that are missing, unknown, or no tensors.
  ForwardCall(const c10::FunctionSchema& schema, const std::vector<std::string>& names,
              const std::string& file);
  ~ForwardCall();

  Stack arguments(const Tensors& tensors) const;

  struct Part;

 private:
  std::vector<std::unique_ptr<Part>> parts_;
};

/// Arguments of a forward without self: "x: Tensor, mask: Tensor?".
std::string wanted_inputs(const c10::FunctionSchema& schema);

/// Names of a forward's results in the order of `flatten_outputs`, as paths: "aux.logits", "1.0".
/// Empty if they are known only at run time, and for a single tensor.
std::vector<std::string> result_names(const torch::jit::Graph& forward);

/// The tensors of a result in order, with tuples, lists and dicts flattened and None left out.
Tensors flatten_outputs(const IValue& result, const std::string& file);

}  // namespace wide
