#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// How PyTorch's layer of a kind fills a parameter when it is made.
struct StartingValues {
  enum class Kind { uniform, normal, constant };
  Kind kind = Kind::uniform;
  double number = 0;      // bound of uniform, deviation of normal, or the constant
  std::string layer;      // name in torch.nn: "Linear", "Conv2d"
  int64_t zero_row = -1;  // the padding row of an embedding
};

/// For each parameter, how the layers that read it would fill it, in the order of `single`'s calls.
/// Parameters that no layer reads as its own are left out.
std::map<std::string, std::vector<StartingValues>> starting_values(const Program& single);

/// Whether values have the bound, mean and spread of `start`.
bool looks_like(const StartingValues& start, const Tensor& values);

/// A tensor of random values, computed in float64, that depends only on its arguments.
Tensor draw(const StartingValues& start, const Tensor& like, uint64_t seed);

}  // namespace wide
