#pragma once
#include "engine/network.h"

namespace wide {

/// While it lives, recurrent layers that this thread calls on `device` first get their weights in
/// one piece, as torch.nn.LSTM has them on a GPU: cuDNN copies them together in every call
/// otherwise. `own`: tensors that lie where the weights of such a call do move with them. Does
/// nothing where the device has no operator for it.
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
