#include "engine/cuda/device.h"
#include "engine/cuda/open.h"

extern "C" void workbench_register_cuda(wide::AddDeviceRuntime add) {
  add(c10::kCUDA, wide::make_cuda_runtime());
}
