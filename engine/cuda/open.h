#pragma once

namespace wide {

/// Loads the CUDA plugin beside the program if there is a driver and LibTorch has CUDA, so that one
/// program works with and without; loads nothing again. Call it before using LibTorch, which looks
/// for devices once.
void open_cuda();

}  // namespace wide
