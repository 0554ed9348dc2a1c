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
  double number = 0;  // bound of uniform around 0, deviation of normal around 0, or the constant
  std::string layer;  // torch.nn's name of it: "Linear", "Conv2d"
  int64_t zero_row = -1;  // of an embedding: padding
};

/// By parameter, what the layers that read it would fill it with, in the order of `single`'s calls;
/// parameters that no layer reads as its own are left out.
std::map<std::string, std::vector<StartingValues>> starting_values(const Program& single);

/// Whether values look like it: their bound, mean and spread.
bool looks_like(const StartingValues& start, const Tensor& values);

/// Fills a tensor, float64 inside. The same for a seed, whatever else was drawn.
Tensor draw(const StartingValues& start, const Tensor& like, uint64_t seed);

}  // namespace wide
