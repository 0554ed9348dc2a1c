#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

/// How the engine's own operators are called.
namespace wide::kernels {

/// Calls `wide::name` through the dispatcher, so that a recording sees it; its results.
inline std::vector<at::Tensor> results(const char* name, std::vector<c10::IValue> stack) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow((std::string("wide::") + name).c_str(), "");
  op.callBoxed(&stack);
  std::vector<at::Tensor> made;
  for (const c10::IValue& value : stack) made.push_back(value.toTensor());
  return made;
}

/// The same; its first result.
inline at::Tensor call(const char* name, std::vector<c10::IValue> stack) {
  return results(name, std::move(stack)).at(0);
}

}  // namespace wide::kernels
