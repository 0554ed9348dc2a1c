#pragma once
#include <string>

#include "engine/program.h"

namespace wide {

/// The bytes of `torch.save(((inputs...), {}))`: how a torch.export archive keeps the inputs it was
/// made with, which `ExportedProgram.example_inputs` and AOTInductor ask for. Empty, and so absent,
/// where an input's dtype has no storage class of its own.
std::string pt2_sample_inputs(const Tensors& inputs);

}  // namespace wide
