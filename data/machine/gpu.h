#pragma once
#include <functional>
#include <string>

#include "data/machine/environment.h"
#include "engine/device.h"

namespace wide {

/// A function of the driver's library by name, or null.
using DriverSymbols = std::function<void*(const char*)>;
/// Functions of NVIDIA's management library (NVML), which needs no context on the device.
DriverSymbols driver_symbols();

/// The device's current state by its driver; unknown facts stay empty.
GpuState read_gpu(const DeviceFacts& facts, const DriverSymbols& symbols = driver_symbols());

/// Adds the device's name and state to an environment; nothing for the CPU.
void add_gpu(Environment& environment, c10::Device device,
             const DriverSymbols& symbols = driver_symbols());

/// How many processes beside this one have work on a device now; 0 if the driver does not say.
int64_t others_on(c10::Device device, const DriverSymbols& symbols = driver_symbols());

/// Key of a device's stored measurements: "cpu", "cuda:0 (NVIDIA H100, driver 570.86, tf32)".
std::string device_key(c10::Device device);

/// Whether float32 products and convolutions on a GPU may round their factors to TF32.
void allow_tf32(bool on);
bool tf32_allowed();

}  // namespace wide
