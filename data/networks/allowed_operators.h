#pragma once
#include <ATen/core/function_schema.h>
#include <ATen/core/symbol.h>

// The reviewed list of operators that a network from a file may call. Others are allowed only with
// NetworkOptions::trusted.
namespace wide {

/// Whether it is an ATen operator that only reads and writes the tensors given to it.
bool may_call(const c10::FunctionSchema& schema);

/// Whether it is one of TorchScript's own operators for control flow, numbers and lists.
bool may_call_in_script(c10::Symbol kind);

}  // namespace wide
