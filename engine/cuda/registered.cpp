#include "engine/cuda/device.h"

// Where the engine is linked as a library: together with LibTorch's CUDA, without a plugin.

namespace wide::cuda_registered {
namespace {

[[maybe_unused]] const bool registered = add_device_runtime(c10::kCUDA, make_cuda_runtime());

}  // namespace
}  // namespace wide::cuda_registered
