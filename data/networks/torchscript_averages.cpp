#include "data/networks/torchscript_averages.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/ir/ir.h>

#include <limits>
#include <vector>

namespace wide {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

constexpr const char* kAverage = R"(
def average(x: Tensor, running_mean: Tensor, running_var: Tensor, batches: Tensor):
    var, mean = torch.var_mean(x.detach().transpose(0, 1).flatten(1), [1], True)
    running_mean.add_((mean - running_mean) / batches)
    running_var.add_((var - running_var) / batches)
)";

bool holds_tensor(const Value* module, const char* name) {
  const auto type = module->type()->cast<c10::ClassType>();
  return type && type->hasAttribute(name) &&
         type->getAttribute(name)->kind() == c10::TypeKind::TensorType;
}

/// Whether it is the float(num_batches_tracked) of 1 / float(num_batches_tracked).
bool reads_counter(const Node* node) {
  if (node->kind() != c10::aten::Float || node->inputs().size() != 1) return false;
  const Node* const attribute = node->input()->node();
  return attribute->kind() == c10::prim::GetAttr &&
         attribute->s(c10::attr::name) == "num_batches_tracked" &&
         holds_tensor(attribute->input(), "running_mean") &&
         holds_tensor(attribute->input(), "running_var") && node->output()->uses().size() == 1 &&
         node->output()->uses()[0].user->kind() == c10::aten::div &&
         node->output()->uses()[0].offset == 1;
}

void find_readers(Block* block, std::vector<Node*>* found) {
  for (Node* node : block->nodes()) {
    for (Block* inner : node->blocks()) find_readers(inner, found);
    if (reads_counter(node)) found->push_back(node);
  }
}

/// The statistics are brought up to date where the counter was; the batch norm itself then adds
/// nothing to them: its momentum is 1 / infinity.
void replace(Node* reader, Graph* graph, Graph* average) {
  const torch::jit::WithInsertPoint before(reader);
  Value* const module = reader->input()->node()->input();
  torch::jit::insertGraph(*graph, *average,
                          {graph->inputs()[1], graph->insertGetAttr(module, "running_mean"),
                           graph->insertGetAttr(module, "running_var"), reader->input()});
  reader->output()->replaceAllUsesWith(
      graph->insertConstant(std::numeric_limits<double>::infinity()));
  reader->destroy();
}

}  // namespace

void average_by_tensors(const torch::jit::Module& module) {
  torch::jit::CompilationUnit unit;
  for (const torch::jit::Module& part : module.modules()) {
    const auto forward = part.find_method("forward");
    if (!forward) continue;
    const std::shared_ptr<Graph> graph = forward->graph();
    if (graph->inputs().size() != 2 ||
        graph->inputs()[1]->type()->kind() != c10::TypeKind::TensorType)
      continue;
    std::vector<Node*> readers;
    find_readers(graph->block(), &readers);
    if (readers.empty()) continue;
    if (!unit.find_function("average"))
      unit.define(std::nullopt, kAverage, torch::jit::nativeResolver(), nullptr);
    for (Node* reader : readers)
      replace(reader, graph.get(),
              torch::jit::toGraphFunction(unit.get_function("average")).graph().get());
  }
}

}  // namespace wide
