#pragma once
#include <string>
#include <vector>

namespace wide {

/// Initialises the GPU's driver (cuInit). Call it before the sandbox gives up its permissions:
/// cuInit writes thread names to /proc, and runs nvidia-modprobe if /dev/nvidia* do not exist.
/// Ignores a missing library and an error of cuInit: the first use of the device reports them.
void start_driver(const char* library);

/// Folders of the loaded libraries of LibTorch and CUDA, and NVIDIA's folder beside torch in
/// site-packages. Libraries there load others at first use, which the sandbox must be able to read:
/// cuDNN its sub-libraries, LibTorch libtorch_cuda_linalg and NVRTC.
std::vector<std::string> device_library_folders();

/// The device nodes in `folder`: those of NVIDIA GPUs and of parts of them (MIG), and that of the
/// Windows subsystem for Linux.
std::vector<std::string> device_nodes(const std::string& folder);

}  // namespace wide
