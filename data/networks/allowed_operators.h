#pragma once
#include <ATen/core/function_schema.h>
#include <ATen/core/symbol.h>

// The operators that a network from a file may call: a reviewed list. What is missing from it can
// be called with NetworkOptions::trusted alone.
namespace wide {

/// Whether it is an operator of ATen that computes on the tensors that it is given, in place or
/// not, and reaches nothing else.
bool may_call(const c10::FunctionSchema& schema);

/// Whether it belongs to what else TorchScript is made of: control flow, numbers, lists.
bool may_call_in_script(c10::Symbol kind);

}  // namespace wide
