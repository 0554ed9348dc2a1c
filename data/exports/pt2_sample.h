#pragma once
#include <string>

#include "engine/program.h"

namespace wide {

/// The bytes of `torch.save(((inputs...), {}))`: the example inputs that pt2.cpp writes into a
/// torch.export archive, for `ExportedProgram.example_inputs` and AOTInductor. Empty, and not
/// written, if an input's dtype has no storage class.
std::string pt2_sample_inputs(const Tensors& inputs);

}  // namespace wide
