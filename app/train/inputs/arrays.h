#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/program.h"

namespace wide {

/// Arrays by name as a .npz that numpy.load reads.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace wide
