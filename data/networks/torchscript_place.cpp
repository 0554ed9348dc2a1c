#include "data/networks/torchscript_place.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <functional>

namespace wide {
namespace {

namespace jit = torch::jit;

/// Calls `each` with the constants of a block and of those inside it.
void for_each_constant(jit::Block* block, const std::function<void(jit::Node*)>& each) {
  for (jit::Node* node : block->nodes()) {
    for (jit::Block* inner : node->blocks()) for_each_constant(inner, each);
    if (node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value)) each(node);
  }
}

bool is_device(const jit::Node* constant) {
  return constant->output()->type()->kind() == c10::TypeKind::DeviceObjType;
}

void put_on(jit::Graph* graph, c10::Device device) {
  for_each_constant(graph->block(), [&](jit::Node* constant) {
    if (is_device(constant)) {
      constant->s_(c10::attr::value, device.str());
    } else if (constant->kindOf(c10::attr::value) == jit::AttributeKind::t) {
      const at::Tensor moved = constant->t(c10::attr::value).to(device);
      constant->t_(c10::attr::value, moved);
      constant->output()->inferTypeFrom(moved);
    }
  });
}

}  // namespace

bool names_other_device(const jit::Module& module, c10::Device device) {
  const std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  bool other = false;
  for_each_constant(graph->block(), [&](jit::Node* constant) {
    other = other || (is_device(constant) && constant->s(c10::attr::value) != device.str());
  });
  return other;
}

jit::Module placed_on(const jit::Module& module, c10::Device device) {
  jit::Module placed = module.clone(/*inplace=*/true);
  for (const jit::Module& part : placed.modules())
    for (const jit::Method& method : part.get_methods()) put_on(method.graph().get(), device);
  // Functions outside of the classes are not copied: the forward that runs holds their calls.
  const std::shared_ptr<jit::Graph> forward = placed.get_method("forward").graph();
  jit::Inline(*forward);
  put_on(forward.get(), device);
  return placed;
}

}  // namespace wide
