#pragma once
#include <string>
#include <vector>

namespace wide {

/// Initialises a GPU's driver. Must run before the sandbox gives up its permissions, because the
/// driver names threads, and starts a program that makes the device nodes where they are missing.
/// Does nothing if the library is missing: the first use of the device reports that.
void start_driver(const char* library);

/// The folders of LibTorch's CUDA libraries. These load further libraries from there at first use:
/// cuDNN its parts, LibTorch its linear algebra and its compiler.
std::vector<std::string> device_library_folders();

/// The device nodes in `folder`: those of NVIDIA GPUs and of parts of them (MIG), and that of the
/// Windows subsystem for Linux.
std::vector<std::string> device_nodes(const std::string& folder);

}  // namespace wide
