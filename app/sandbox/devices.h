#pragma once
#include <string>
#include <vector>

namespace wide {

/// Initialises a GPU's driver, as long as the process may still do what that takes: it names
/// threads, and where the device nodes are not there yet it starts the program that makes them.
/// Does nothing where the library is not there: whoever uses the device says why there is none.
void start_driver(const char* library);

/// Folders that LibTorch's CUDA libraries lie in. They open more of their kind from there when they
/// are first used: cuDNN its parts, LibTorch its linear algebra and its compiler.
std::vector<std::string> device_library_folders();

/// What drivers talk to in `folder`: NVIDIA's nodes, those of parts of a GPU (MIG) and that of
/// Windows' subsystem for Linux.
std::vector<std::string> device_nodes(const std::string& folder);

}  // namespace wide
