#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include "tests/device/simulated/streams.h"

namespace wide::simulated {

/// Makes the device known to PyTorch (as PrivateUse1) and to the engine; once, before it is used.
void install();

/// Whose memory may be had for `kDevice`.
c10::Allocator* device_allocator();

/// A new tensor on the device.
at::Tensor empty_on_device(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

/// The tensor as the device's kernels see it: on the CPU, by address, through the second mapping.
at::Tensor shadow_of(const at::Tensor& tensor);

/// The bytes that a tensor of the device lies in.
Access access_of(const at::Tensor& tensor, bool write, std::string what);

/// Operators that allocate, copy or read on the host; then all others that have a kernel on the
/// CPU.
void register_memory_operators(torch::Library& library);
void register_operators(torch::Library& library);
/// What computes on CPU tensors (arguments in, results out) an operator that the CPU has no kernel
/// for, since it has better ones; null: its own kernel does.
using Replacement = void (*)(torch::jit::Stack&);
Replacement replacement_of(const c10::OperatorHandle& op);
/// The engine's runtime of this device.
void register_runtime();

}  // namespace wide::simulated
