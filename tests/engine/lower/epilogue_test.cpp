#include "engine/lower/epilogue.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "engine/lower/plan.h"
#include "engine/record/record.h"

namespace wide {
namespace {

Tensor product(const Tensor& a, const Tensor& b) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::matmul", "");
  Stack stack{a, b, false, false, c10::IValue(), std::string("none")};
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

struct Planned {
  size_t steps;
  Tensors results;
};

Planned planned(const Program& program, const Tensors& inputs, const PlanOptions& options) {
  Plan plan(program, {}, options);
  Planned made{plan.steps().size(), {}};
  std::vector<void*> out;
  for (const Value& v : plan.results()) made.results.push_back(at::empty(v.sizes));
  for (const Tensor& t : made.results) out.push_back(t.data_ptr());
  for (size_t k = 0; k < plan.outside().size(); ++k)
    for (size_t i = 0; i < program.bound.size(); ++i)
      if (program.bound[i] == plan.outside()[k]) plan.bind(k, inputs[i].data_ptr());
  plan.bind_outputs(out);
  plan.run();
  return made;
}

/// A product does the tanh behind it, unless the program says that it was a call of its own: what
/// is computed a second time must go the way it went at first.
TEST(PlanEpilogue, WhatIsApartIsACallOfItsOwn) {
  const Tensors inputs{at::randn({3, 5, 7}), at::randn({3, 7, 4})};
  const Program program = record(
      {{"a", Role::input, inputs[0], true}, {"b", Role::input, inputs[1], true}},
      [](const Tensors& t) { return Tensors{at::tanh(product(t[0], t[1]))}; }, 3);
  ASSERT_EQ(program.nodes.size(), 2);
  const Tensor expected = at::tanh(at::bmm(inputs[0], inputs[1]));
  const Planned together = planned(program, inputs, {});
  EXPECT_EQ(together.steps, 1);
  EXPECT_TRUE(at::allclose(together.results[0], expected, 1e-5, 1e-6));
  const Planned alone = planned(program, inputs, {.apart = {program.outputs[0]}});
  EXPECT_EQ(alone.steps, 2);
  EXPECT_TRUE(at::allclose(alone.results[0], expected, 1e-5, 1e-6));
  // What the product itself makes may be: it takes nothing of what was before.
  EXPECT_EQ(planned(program, inputs, {.apart = {program.nodes[0].results[0].values[0]}}).steps, 1);
}

}  // namespace
}  // namespace wide
