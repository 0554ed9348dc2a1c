#pragma once
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

// Python's operators on sizes: `_operator.floordiv`, `torch.sym_max`, `math.trunc`.
namespace wide::pt2 {

/// How many numbers a function takes, "add" or "sym_max"; 0 for one that is not known.
size_t arity_of_python_number(const std::string& function);
/// Calls the function. Throws Error if the result does not fit 64 bits, std::out_of_range if the
/// function is unknown.
c10::IValue python_number(const std::string& function, const std::vector<c10::IValue>& arguments);

}  // namespace wide::pt2
