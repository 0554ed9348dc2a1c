#pragma once
#include "engine/program.h"

namespace wide {

/// For an operator whose result's shape or value depends on data: if only some of its arguments
/// decide, or LibTorch does not tag it.
struct DataDependence {
  std::string op;  // with its overload, as in Node::name
  std::vector<ValueId> (*deciding)(const Program& program, const Node& node);
};
/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_data_dependence(DataDependence row);

/// Arguments whose data decide a result's shape or value; none for most operators.
std::vector<ValueId> deciding_values(const Program& program, const Node& node);

}  // namespace wide
