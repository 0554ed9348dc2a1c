#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

/// The weights of N models, one checkpoint each.
struct LoadedWeights {
  Tensors tensors;           // for each weight of the network, `[N, ...]`, or without N if shared
  std::vector<bool> shared;  // with `share`: the weight is equal in all checkpoints
  std::vector<bool> given;   // false: no checkpoint has it, and the network's own value is used
  std::vector<std::string> notes;
  std::string equal_note;    // the one of `notes` on weights that are equal in all checkpoints
  int64_t equal_bytes = 0;   // what sharing saves or would save: N - 1 copies of equal weights
  int64_t file_bytes = 0;    // of all checkpoints
  int64_t packed_bytes = 0;  // of `tensors`
  double seconds = 0;        // from opening the first to packing the last
};

/// Matches every checkpoint against the network's weights and packs them one file at a time.
/// `dtype` replaces float32 weights. With `share`, weights that are bitwise equal in all files are
/// kept once. Throws Error naming the file and the tensor. `watch` is called after each checkpoint
/// with the bytes of one model's weights that were equal in all checkpoints so far; it may throw.
LoadedWeights load_checkpoints(const Network& network, const std::vector<std::string>& files,
                               at::ScalarType dtype, bool share,
                               const std::function<void(int64_t equal_bytes)>& watch = {});

/// Bytes of the weights of `n` models as `load_checkpoints` packs them.
int64_t packed_bytes(const Network& network, int64_t n, at::ScalarType dtype);

}  // namespace wide
