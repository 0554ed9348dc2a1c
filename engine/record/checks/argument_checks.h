#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "engine/program.h"

namespace wide {

/// The error in the arguments of operators whose kernels read one tensor by another's sizes without
/// a check; "" if there is none. PyTorch's API checks these before; calls in a file need not.
std::string fault_of_arguments(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments);

}  // namespace wide
