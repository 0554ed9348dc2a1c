#pragma once
#include <string>

#include "engine/program.h"

namespace wide {

/// The bytes of `torch.save(((inputs...), {}))`: the example inputs that pt2.cpp writes into a
/// torch.export archive, for `ExportedProgram.example_inputs` and AOTInductor. Returns "" if
/// PyTorch has no storage class for an input's dtype; the exported program then has no examples.
std::string pt2_sample_inputs(const Tensors& inputs);

}  // namespace wide
