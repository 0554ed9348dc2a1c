#pragma once
#include "engine/program.h"

namespace wide {

/// For an operator whose result's shape or value depends on data: where less than all of its
/// arguments decide, or where LibTorch does not tag it as one.
struct DataDependence {
  std::string op;  // with its overload, as Node::name has it
  std::vector<ValueId> (*deciding)(const Program& program, const Node& node);
};
/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_data_dependence(DataDependence row);

/// The arguments of a call that decide about its result's shape or value; none for most operators.
std::vector<ValueId> deciding_values(const Program& program, const Node& node);

}  // namespace wide
