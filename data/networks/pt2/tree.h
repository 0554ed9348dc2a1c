#pragma once
#include <string>
#include <vector>

#include "data/networks/pt2/schema.h"

namespace wide::pt2 {

/// A leaf of forward's arguments by the path that leads to it: "x", "batch.image", "x.0".
struct Leaf {
  std::string name;
  std::string other;  // with indices for a named tuple's fields; "" if the same
};

/// The leaves of forward's arguments in the order of the graph's user inputs. Falls back to the
/// graph's own names if the file does not describe forward's arguments. Throws Error when the
/// pytree does not have a leaf for each of the `names` of user inputs.
std::vector<Leaf> input_leaves(const Program& program, const std::vector<std::string>& names,
                               const std::string& file);

/// A name for each of `count` user outputs by the path that leads to it in what forward returns:
/// "logits", "aux.0", "1"; empty if the file does not say or forward returns one tensor.
std::vector<std::string> output_leaves(const Program& program, size_t count,
                                       const std::string& file);

}  // namespace wide::pt2
