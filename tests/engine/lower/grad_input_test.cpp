#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/lower/memory/out_variant.h"
#include "engine/lower/plan/plan.h"
#include "engine/record/record.h"

namespace wide::grad_input_test {
namespace {

/// Gradients go into the arena too: backward operators name their result grad_input.
TEST(GradInput, BackwardOperatorsWriteWhereTheyAreTold) {
  const Tensor g = at::randn({3, 4, 6, 6}), x = at::randn({3, 4, 6, 6}),
               pooled = at::randn({3, 4, 3, 3});
  const Program program = record(
      {{"g", Role::input, g, true}, {"x", Role::input, x, true}, {"p", Role::input, pooled, true}},
      [](const Tensors& t) -> Tensors {
        return {at::threshold_backward(t[0], t[1], 0),
                at::gelu_backward(t[0], t[1]),
                at::tanh_backward(t[0], t[1]),
                at::sigmoid_backward(t[0], t[1]),
                at::leaky_relu_backward(t[0], t[1], 0.1, false),
                at::elu_backward(t[0], 1, 1, 1, false, t[1]),
                at::softplus_backward(t[0], t[1], 1, 20),
                at::mse_loss_backward(t[0], t[1], t[0], 0),
                at::avg_pool2d_backward(t[2], t[1], {2, 2}, {2, 2}, {0, 0}, false, true, {})};
      },
      3);
  ASSERT_EQ(program.nodes.size(), 9);
  for (const Node& node : program.nodes) {
    const auto form = find_out_variant(program, node, c10::kCPU);
    ASSERT_TRUE(form) << node.name();
    EXPECT_EQ(form->op.schema().overload_name(), "grad_input") << node.name();
  }
  Plan plan(program, {}, {});
  Tensors results;
  std::vector<void*> out;
  for (const Value& v : plan.results()) results.push_back(at::empty(v.sizes));
  for (const Tensor& t : results) out.push_back(t.data_ptr());
  for (size_t k = 0; k < plan.outside().size(); ++k)
    for (size_t i = 0; i < program.bound.size(); ++i)
      if (program.bound[i] == plan.outside()[k])
        plan.bind(k, std::vector<Tensor>{g, x, pooled}[i].data_ptr());
  plan.bind_outputs(out);
  plan.run();
  const Tensors expected = interpret(program, {g, x, pooled});
  for (size_t k = 0; k < results.size(); ++k)
    EXPECT_TRUE(at::allclose(results[k], expected[k])) << program.nodes[k].name();
}

}  // namespace
}  // namespace wide::grad_input_test
