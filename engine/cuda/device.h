#pragma once
#include "engine/device.h"

namespace wide {

std::unique_ptr<DeviceRuntime> make_cuda_runtime();

}  // namespace wide
