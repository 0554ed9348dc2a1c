#pragma once
#include <nlohmann/json.hpp>

#include "engine/model/portable.h"

namespace wide {

/// A tensor that the archive carries: its name in the state dict and how a loader sees it.
struct Pt2Tensor {
  std::string name;
  Tensor tensor;
  bool parameter = false;
};

/// What a torch.export archive says about one program: schema 8.17 of torch/_export/serde of
/// PyTorch 2.11, as JSON with the keys in the order in which PyTorch writes them.
struct Pt2Model {
  nlohmann::ordered_json json;
  std::vector<Pt2Tensor> weights;    // parameters and buffers
  std::vector<Pt2Tensor> constants;  // tensors the program was recorded with
};

/// Throws Error naming the operator where an argument has no form in the schema.
Pt2Model pt2_model(const Portable& portable);

}  // namespace wide
