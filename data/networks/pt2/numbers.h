#pragma once
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

// Python's operators on sizes: `_operator.floordiv`, `torch.sym_max`, `math.trunc`.
namespace wide::pt2 {

/// The value of a function of Python numbers, "add" or "sym_max". Throws Error for an unknown one.
c10::IValue python_number(const std::string& function, const std::vector<c10::IValue>& arguments);
bool known_python_number(const std::string& function);

}  // namespace wide::pt2
