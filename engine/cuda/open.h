#pragma once

namespace wide {

/// Opens the CUDA code that lies beside the program, where there is a driver and LibTorch has CUDA:
/// one program serves machines with and without. To be called before LibTorch is used, which asks
/// once what devices there are.
void open_cuda();

}  // namespace wide
