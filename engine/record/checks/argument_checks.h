#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "engine/program.h"

namespace wide {

/// What is wrong with the arguments of an operator whose kernel reads as many elements as others
/// have, without a look whether they are there; "" for all others. Whoever exports a network calls
/// it through operators that do look; a file need not.
std::string fault_of_arguments(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments);

}  // namespace wide
