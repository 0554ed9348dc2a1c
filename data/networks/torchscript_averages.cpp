#include "data/networks/torchscript_averages.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/ir/ir.h>

#include <limits>
#include <vector>

namespace wide {
namespace {

namespace jit = torch::jit;

constexpr const char* kAverage = R"(
def average(x: Tensor, running_mean: Tensor, running_var: Tensor, batches: Tensor):
    var, mean = torch.var_mean(x.detach().transpose(0, 1).flatten(1), [1], True)
    running_mean.add_((mean - running_mean) / batches)
    running_var.add_((var - running_var) / batches)
)";

bool holds_tensor(const jit::Value* module, const char* name) {
  const auto type = module->type()->cast<c10::ClassType>();
  return type && type->hasAttribute(name) &&
         type->getAttribute(name)->kind() == c10::TypeKind::TensorType;
}

/// Whether the node is the float(num_batches_tracked) of 1 / float(num_batches_tracked).
bool reads_counter(const jit::Node* node) {
  if (node->kind() != c10::aten::Float || node->inputs().size() != 1) return false;
  const jit::Node* const attribute = node->input()->node();
  return attribute->kind() == c10::prim::GetAttr &&
         attribute->s(c10::attr::name) == "num_batches_tracked" &&
         holds_tensor(attribute->input(), "running_mean") &&
         holds_tensor(attribute->input(), "running_var") && node->output()->uses().size() == 1 &&
         node->output()->uses()[0].user->kind() == c10::aten::div &&
         node->output()->uses()[0].offset == 1;
}

void find_readers(jit::Block* block, std::vector<jit::Node*>* found) {
  for (jit::Node* node : block->nodes()) {
    for (jit::Block* inner : node->blocks()) find_readers(inner, found);
    if (reads_counter(node)) found->push_back(node);
  }
}

/// Inserts the update of the statistics where the counter was read; the counter becomes infinity,
/// so that the batch norm's own momentum is 0 and it changes nothing.
void replace(jit::Node* reader, jit::Graph* graph, jit::Graph* average) {
  const jit::WithInsertPoint before(reader);
  jit::Value* const module = reader->input()->node()->input();
  jit::insertGraph(*graph, *average,
                   {graph->inputs()[1], graph->insertGetAttr(module, "running_mean"),
                    graph->insertGetAttr(module, "running_var"), reader->input()});
  reader->output()->replaceAllUsesWith(
      graph->insertConstant(std::numeric_limits<double>::infinity()));
  reader->destroy();
}

}  // namespace

void average_by_tensors(const jit::Module& module) {
  jit::CompilationUnit unit;
  for (const jit::Module& part : module.modules()) {
    const auto forward = part.find_method("forward");
    if (!forward) continue;
    const std::shared_ptr<jit::Graph> graph = forward->graph();
    if (graph->inputs().size() != 2 ||
        graph->inputs()[1]->type()->kind() != c10::TypeKind::TensorType)
      continue;
    std::vector<jit::Node*> readers;
    find_readers(graph->block(), &readers);
    if (readers.empty()) continue;
    if (!unit.find_function("average"))
      unit.define(std::nullopt, kAverage, jit::nativeResolver(), nullptr);
    for (jit::Node* reader : readers)
      replace(reader, graph.get(),
              torch::jit::toGraphFunction(unit.get_function("average")).graph().get());
  }
}

}  // namespace wide
