#include "engine/record/checks/data_dependence.h"

namespace wide {

namespace {

/// Indexing by integers gives as many elements as there are indices; only masks select by data.
std::vector<ValueId> masks(const Program& program, const Node& node) {
  std::vector<ValueId> out;
  for (const ValueId id : node.arguments.at(1).values)
    if (id != kNone &&
        (program.value(id).dtype == at::kBool || program.value(id).dtype == at::kByte))
      out.push_back(id);
  return out;
}

/// The lengths of an operator that LibTorch does not tag.
std::vector<ValueId> lengths(const Program&, const Node& node) {
  return node.arguments.at(1).values;
}

std::vector<DataDependence>& rows() {
  static std::vector<DataDependence> all{{"aten::index.Tensor", masks},
                                         {"aten::_pack_padded_sequence", lengths}};
  return all;
}

}  // namespace

bool add_data_dependence(DataDependence row) {
  rows().push_back(std::move(row));
  return true;
}

std::vector<ValueId> deciding_values(const Program& program, const Node& node) {
  const std::string name = node.name();
  for (const DataDependence& row : rows())
    if (row.op == name) return row.deciding(program, node);
  if (!node.op.hasTag(at::Tag::data_dependent_output) &&
      !node.op.hasTag(at::Tag::dynamic_output_shape))
    return {};
  std::vector<ValueId> all;
  for_each_value(node.arguments, [&](ValueId id) { all.push_back(id); });
  return all;
}

}  // namespace wide
