#pragma once
#include <nlohmann/json.hpp>

#include "engine/model/portable.h"

namespace wide {

/// A tensor in the archive: its name in the state dict, and its sizes and strides for the loader.
struct Pt2Tensor {
  std::string name;
  Tensor tensor;
  bool parameter = false;
};

/// The description of a program in a torch.export archive: schema 8.17 of torch/_export/serde of
/// PyTorch 2.11, as JSON with the keys in the order in which PyTorch writes them.
struct Pt2Model {
  nlohmann::ordered_json json;
  std::vector<Pt2Tensor> weights;    // parameters and buffers
  std::vector<Pt2Tensor> constants;  // constants of the recording
};

/// Throws Error naming the operator if the schema cannot express an argument.
Pt2Model pt2_model(const Portable& portable);

}  // namespace wide
