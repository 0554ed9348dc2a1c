#include "app/python/bindings/gradients.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

namespace nwide {
namespace {

namespace py = pybind11;
using torch::autograd::Node;

/// Throws nwide.Error where a gradient would go through it.
struct RefuseGradients : Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    const py::gil_scoped_acquire gil;
    PyErr_SetString(py::module_::import("nwide._core").attr("Error").ptr(),
                    "[backward] gradient: got a call of a wide program, expected one without "
                    "gradients in this version; try torch.inference_mode(), or "
                    "requires_grad_(False)");
    python_error thrown;
    thrown.persist();
    throw thrown;
  }
};

std::shared_ptr<Node> refusing() { return {new RefuseGradients, torch::autograd::deleteNode}; }

void lead(Node& node, const wide::Tensors& to) {
  for (const wide::Tensor& t : to)
    if (t.requires_grad()) node.add_next_edge(torch::autograd::impl::gradient_edge(t));
}

}  // namespace

wide::Tensors GradientRefusal::results(const wide::Tensors& outputs, const wide::Tensors& inputs,
                                       const wide::Tensors& weights) {
  wide::Tensors wanted;
  for (const wide::Tensor& t : weights)
    if (t.requires_grad()) wanted.push_back(t);
  const auto same = [](const wide::Tensor& a, const wide::Tensor& b) { return a.is_same(b); };
  if (!std::ranges::equal(wanted, wanted_, same)) {
    weights_ = refusing();
    weights_->add_input_metadata(Node::undefined_input());
    lead(*weights_, wanted);
    wanted_ = std::move(wanted);
  }
  const std::shared_ptr<Node> node = refusing();
  lead(*node, inputs);
  if (!wanted_.empty()) node->add_next_edge({weights_, 0});
  if (node->num_outputs() == 0) return outputs;
  wide::Tensors out;
  for (const wide::Tensor& t : outputs) {
    out.push_back(t.detach());  // a result may be an input, which keeps its own history
    if (torch::autograd::isDifferentiableType(t.scalar_type()) && !t.is_inference())
      torch::autograd::set_history(out.back(), node);
  }
  return out;
}

}  // namespace nwide
