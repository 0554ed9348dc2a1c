#include <fmt/format.h>

#include <algorithm>

#include "engine/passes/pass.h"

namespace wide::split_pass {

namespace {

/// Prologue: nodes that depend only on parameters, buffers and constants. Shared: nodes that depend
/// on inputs but not on a model. Random operators stay in main, in their order.
std::string run(Program& program) {
  ByValue<bool> on_input(program.values.size(), false), wide(program.values.size(), false);
  for (ValueId id : program.bound) {
    const Value& v = program.value(id);
    on_input[id] = v.role == Role::input;
    wide[id] = v.wide;
  }
  int64_t count[3] = {0, 0, 0};
  for (Node& node : program.nodes) {
    bool input = node.is_random(), model = node.is_random();
    for_each_value(node.arguments, [&](ValueId id) {
      input = input || on_input[id];
      model = model || wide[id];
    });
    for_each_value(node.results, [&](ValueId id) {
      on_input[id] = input;
      wide[id] = model;
    });
    node.phase = !input ? Phase::prologue : model ? Phase::main : Phase::shared;
    ++count[static_cast<int>(node.phase)];
  }
  auto rank = [](const Node& node) {
    return node.phase == Phase::prologue ? 0 : node.phase == Phase::shared ? 1 : 2;
  };
  std::ranges::stable_sort(program.nodes,
                           [&](const Node& a, const Node& b) { return rank(a) < rank(b); });
  return fmt::format("{} nodes in the prologue, {} shared, {} in main",
                     count[static_cast<int>(Phase::prologue)],
                     count[static_cast<int>(Phase::shared)], count[static_cast<int>(Phase::main)]);
}

[[maybe_unused]] const bool registered =
    add_pass({"split", "parameters alone into a prologue, model-independent work out of main",
              Stage::program, 100, run});

}  // namespace

}  // namespace wide::split_pass
