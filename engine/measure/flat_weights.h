#pragma once
#include "engine/network.h"

namespace wide {

/// While it exists, weights of recurrent layers that this thread calls on `device` are first moved
/// to one piece of memory, as torch.nn.LSTM's on a GPU; otherwise cuDNN would copy them in every
/// call. `own`: tensors in the memory of such weights move with them. Does nothing if the device
/// has no operator for it.
class FlatWeights {
 public:
  FlatWeights(c10::Device device, Tensors own);
  ~FlatWeights();
  FlatWeights(const FlatWeights&) = delete;
  FlatWeights& operator=(const FlatWeights&) = delete;

 private:
  Tensors own_;
  uint64_t callback_ = 0;
};

}  // namespace wide
