// Zeros around the input of a convolution become its own padding, which costs no copy: causal
// convolutions pad only in front, which no layer of PyTorch does.
#include <fmt/format.h>

#include <map>

#include "engine/passes/pass.h"

namespace wide::paddings_pass {
namespace {

/// Index of the padding argument of our own convolutions. It is the padding in front of each
/// spatial axis; that behind follows from the result's sizes.
const std::map<std::string, size_t>& padding_argument() {
  static const std::map<std::string, size_t> all{{"wide::direct_convolution", 6},
                                                 {"wide::depthwise_convolution", 4}};
  return all;
}

/// Zeros in front of each of the last `axes` dimensions, the outermost first; empty for any other
/// node.
std::vector<int64_t> zeros_in_front(const Node& node, size_t axes) {
  if (node.name() != "aten::constant_pad_nd") return {};
  const Argument &pad = node.arguments[1], &value = node.arguments[2];
  if (pad.kind != Argument::Kind::constant || value.kind != Argument::Kind::constant ||
      !value.constant.toScalar().equal(0))
    return {};
  const std::vector<int64_t> list = pad.constant.toIntVector();  // by axis, last axis first
  std::vector<int64_t> front(axes, 0);
  for (size_t k = 0; k < list.size(); ++k) {
    if (list[k] < 0 || (k / 2 >= axes && list[k] != 0)) return {};
    if (k % 2 == 0 && k / 2 < axes) front[axes - 1 - k / 2] = list[k];
  }
  return front;
}

bool is_transposed(const Node& node) {
  const auto place = node.op.schema().argumentIndexWithName("transposed");
  return place && node.arguments[static_cast<size_t>(*place)].constant.toBool();
}

std::string run(Program& program) {
  const auto producer = program.producers();
  int64_t count = 0;
  for (Node& node : program.nodes) {
    const auto it = padding_argument().find(node.name());
    if (it == padding_argument().end() || is_transposed(node)) continue;
    const int32_t from = producer[node.arguments[0].values[0]];
    if (from < 0) continue;
    const Node& pad = program.nodes[static_cast<size_t>(from)];
    std::vector<int64_t> own = node.arguments[it->second].constant.toIntVector();
    const std::vector<int64_t> front = zeros_in_front(pad, own.size());
    if (front.empty()) continue;
    for (size_t k = 0; k < own.size(); ++k) own[k] += front[k];
    node.arguments[it->second] = Argument::of(own);
    node.arguments[0] = pad.arguments[0];
    ++count;
  }
  if (count == 0) return "joined nothing";
  program.remove_dead_nodes();
  return fmt::format("joined {} paddings with their convolutions", count);
}

[[maybe_unused]] const bool registered =
    add_pass({"paddings", "zeros around the input of a convolution become its own padding",
              Stage::program, 97, run});

}  // namespace
}  // namespace wide::paddings_pass
