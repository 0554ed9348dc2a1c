#pragma once
#include <string>

namespace torch::jit {
struct Module;
}

#include "data/network_format.h"

namespace wide {

/// A TorchScript module already in memory; `name` is for messages. The module is copied: whatever
/// is done with the network, the given module stays as it is.
std::unique_ptr<NetworkFile> torchscript_network(const torch::jit::Module& module,
                                                 const std::string& name);

}  // namespace wide
