#include <fmt/format.h>

#include <map>
#include <sstream>

#include "engine/passes/pass.h"

namespace wide::common_subexpressions_pass {

namespace {

/// Operator, arguments and constants as text: equal keys compute equal values.
std::string key(const Node& node) {
  std::ostringstream out;
  out << node.name();
  for (const Argument& a : node.arguments) {
    out << '|' << static_cast<int>(a.kind);
    if (a.kind == Argument::Kind::constant) out << a.constant.tagKind() << a.constant;
    for (ValueId id : a.values) out << '%' << id;
  }
  return out.str();
}

bool mergeable(const Node& node) {
  if (node.is_random() || node.op.schema().is_mutable()) return false;
  for (const Argument& a : node.arguments)
    if (a.kind == Argument::Kind::constant &&
        (a.constant.isTensor() || a.constant.isGenerator() || a.constant.isObject()))
      return false;
  return true;
}

std::string run(Program& program) {
  std::map<std::string, size_t> seen;
  std::vector<bool> keep(program.nodes.size(), true);
  int64_t merged = 0;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (!mergeable(program.nodes[i])) continue;
    auto [it, fresh] = seen.emplace(key(program.nodes[i]), i);
    if (fresh) continue;
    const std::vector<Argument> mine = program.nodes[i].results;
    const std::vector<Argument>& first = program.nodes[it->second].results;
    for (size_t r = 0; r < mine.size(); ++r)
      for (size_t k = 0; k < mine[r].values.size(); ++k)
        if (mine[r].values[k] != kNone) program.replace_uses(mine[r].values[k], first[r].values[k]);
    keep[i] = false;
    ++merged;
  }
  if (merged > 0) program.keep_nodes(keep);
  return fmt::format("merged {} nodes", merged);
}

[[maybe_unused]] const bool registered =
    add_pass({"common-subexpressions", "computes equal things once", Stage::program, 20, run,
              /*portable=*/true});

}  // namespace

}  // namespace wide::common_subexpressions_pass
