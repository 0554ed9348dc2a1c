#include "engine/lower/plan/epilogue.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "engine/lower/plan/plan.h"
#include "engine/record/record.h"

namespace wide::epilogue_test {
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

/// The same of a pooling, and of what stands behind it.
TEST(PlanEpilogue, PoolingsMayBeApart) {
  const at::NoGradGuard no_grad;
  const Tensors inputs{at::randn({3, 2, 4, 6, 8}), at::randn({3, 5, 4, 1, 1})};
  const auto call = [](const char* name, Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
    return stack[0].toTensor();
  };
  const Sizes two{2, 2}, none{0, 0}, one{1, 1};
  const Program program = record(
      {{"x", Role::input, inputs[0], true}, {"w", Role::input, inputs[1], true}},
      [&](const Tensors& t) {
        const Tensor y =
            call("wide::pointwise_convolution", {t[0], t[1], IValue(), IValue(), "none", "none"});
        return Tensors{
            at::tanh(call("wide::max_pool", {y.flatten(0, 1), two, two, none, one, false}))};
      },
      3);
  Tensors rows;
  for (int64_t i = 0; i < 3; ++i)
    rows.push_back(at::tanh(at::max_pool2d(at::conv2d(inputs[0][i], inputs[1][i]), 2)));
  const Tensor expected = at::cat(rows);
  const auto check = [&](const PlanOptions& options, size_t steps, size_t buffers) {
    const Planned made = planned(program, inputs, options);
    EXPECT_EQ(made.steps, steps);
    EXPECT_TRUE(at::allclose(made.results[0], expected, 1e-5, 1e-6));
    EXPECT_EQ(Plan::memory_of(program, options).arena_bytes > 0, buffers > 0);
  };
  std::vector<ValueId> made;
  for (const Node& node : program.nodes) made.push_back(node.results[0].values[0]);
  check({}, 1, 0);
  check({.apart = {made.back()}}, 2, 1);
  check({.apart = {made[made.size() - 2]}}, 3, 1);
  check({.kernels = false}, 3, 1);
  check({.arena = false}, 3, 0);
}

}  // namespace
}  // namespace wide::epilogue_test
