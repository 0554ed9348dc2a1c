#pragma once
#include "engine/program.h"

namespace wide {

/// The arguments on whose data the shape or value of an operator's result depends: registered where
/// these are not all arguments, or where LibTorch does not tag the operator.
struct DataDependence {
  std::string op;  // with its overload, as in Node::name
  std::vector<ValueId> (*deciding)(const Program& program, const Node& node);
};
/// Registers at static initialisation; returns true so that it can initialise a constant.
bool add_data_dependence(DataDependence row);

/// Arguments whose data decide a result's shape or value; none for most operators.
std::vector<ValueId> deciding_values(const Program& program, const Node& node);

}  // namespace wide
