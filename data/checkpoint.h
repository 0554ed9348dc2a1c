#pragma once
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

/// The files behind `--weights`: a folder or a glob stands for its checkpoints in sorted order.
/// Throws Error for what does not exist and for kinds that cannot be read.
std::vector<std::string> expand_checkpoints(const std::vector<std::string>& arguments);

/// The weights of N models, one checkpoint each.
struct LoadedWeights {
  Tensors tensors;           // per weight of the network, `[N, ...]`, or without N where shared
  std::vector<bool> shared;  // equal in all checkpoints, when asked for
  std::vector<std::string> notes;
};

/// Matches every checkpoint against the network's weights and packs them one file at a time.
/// `dtype` replaces kFloat of the network's weights. With `share`, weights that are equal to the
/// last bit in all files are kept once. Throws Error naming the file and the tensor.
LoadedWeights load_checkpoints(const Network& network, const std::vector<std::string>& files,
                               at::ScalarType dtype, bool share);

}  // namespace wide
