#pragma once
#include <filesystem>

#include "engine/device.h"

namespace wide {

/// What the plugin exports under the name `kRegisterCuda`: registers its runtime by `add`, which is
/// add_device_runtime of whoever opens it. So it needs no symbols of the program or module.
using AddDeviceRuntime = bool (*)(c10::DeviceType type, std::unique_ptr<DeviceRuntime> runtime);
using RegisterCuda = void (*)(AddDeviceRuntime add);
inline constexpr const char* kRegisterCuda = "workbench_register_cuda";

/// Loads the CUDA plugin in `folder` if there is a driver and LibTorch has CUDA, so that one
/// program works with and without; only the first call does. Call it before using LibTorch, which
/// looks for devices once; in Python, torch has loaded CUDA already.
void open_cuda(const std::filesystem::path& folder);

}  // namespace wide
