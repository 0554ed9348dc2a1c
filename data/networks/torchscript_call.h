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

/// How the arguments of a TorchScript forward are put together from flat, named tensors:
/// `x`, `batch.image` of a dict, `states.0` of a list or tuple, nested at will. Planned once,
/// since the baselines call it for every model.
class ForwardCall {
 public:
  /// `names` in the order in which tensors will be given. Throws Error for what is missing, too
  /// many, or no tensor.
  ForwardCall(const c10::FunctionSchema& schema, const std::vector<std::string>& names,
              const std::string& file);
  ~ForwardCall();

  /// All arguments after self.
  Stack arguments(const Tensors& tensors) const;

  struct Part;

 private:
  std::vector<std::unique_ptr<Part>> parts_;
};

/// "x: Tensor, mask: Tensor?" of a forward, without self.
std::string wanted_inputs(const c10::FunctionSchema& schema);

/// Names of a forward's results in the order of `flatten_outputs`, by the path to each:
/// "aux.logits", "1.0". Empty where they show only when it runs, and for a single tensor.
std::vector<std::string> result_names(const torch::jit::Graph& forward);

/// The tensors of a result in order: tuples, lists and dicts opened, None left out.
Tensors flatten_outputs(const IValue& result, const std::string& file);

}  // namespace wide
