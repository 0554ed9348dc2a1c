#include "engine/widen/aten_only.h"

#include "engine/passes/pass.h"
#include "engine/train/optimizer/optimizer_operator.h"

namespace wide {

std::string outside_aten(const Program& program, const Node& node) {
  const std::string name = node.name();
  if (name.rfind("aten::", 0) != 0) return name;
  bool strided = true;
  for_each_value(node.results, [&](ValueId id) { strided &= program.value(id).strided; });
  return strided ? "" : name + " with an opaque layout";
}

OperatorsAllowed aten_alone(bool optimizer_steps) {
  return {"ATen operators alone", [optimizer_steps](const Program& program, const Node& node) {
            return optimizer_steps && is_optimizer_step(node) ? std::string()
                                                              : outside_aten(program, node);
          }};
}

void drop_weight_copies(Program& program) {
  static const std::set<std::string> any_layout{"aten::bmm", "aten::baddbmm", "aten::mm",
                                                "aten::addmm"};
  ByValue<bool> on_input(program.values.size(), false), needed(program.values.size(), false);
  for (const ValueId id : program.bound) on_input[id] = program.value(id).role == Role::input;
  for (const Node& node : program.nodes) {
    bool input = node.is_random();
    for_each_value(node.arguments, [&](ValueId id) {
      input |= on_input[id];
      if (!any_layout.count(node.name())) needed[id] = true;
    });
    for_each_value(node.results, [&](ValueId id) { on_input[id] = input; });
  }
  for (const ValueId id : program.results()) needed[id] = true;
  for (const Node& node : program.nodes) {
    if (node.name() != "aten::clone" || node.arguments[0].kind != Argument::Kind::value) continue;
    const ValueId made = node.results[0].values[0];
    if (on_input[made] || needed[made]) continue;
    program.replace_uses(made, node.arguments[0].values[0]);
  }
}

std::set<std::string> passes_beyond_cleaning() {
  std::set<std::string> names;
  for (const Pass& pass : passes())
    if (!pass.portable) names.insert(pass.name);
  return names;
}

}  // namespace wide
