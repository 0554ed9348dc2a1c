#include "engine/lower/plan/operator_traits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/lower/memory/out_variant.h"
#include "engine/record/record.h"

namespace wide::operator_traits_test {
namespace {

TEST(OperatorTraits, EveryKernelSaysWhichActivationsAndPoolingsItTakes) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int kernels = 0;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.name.rfind("wide::", 0) != 0) continue;
    const bool takes = op->schema().argumentIndexWithName("activation").has_value();
    EXPECT_EQ(takes, !operator_traits(*op).absorbs.empty()) << name;
    const bool pools = op->schema().argumentIndexWithName("pool").has_value();
    EXPECT_EQ(pools, operator_traits(*op).pools != nullptr) << name;
    kernels += takes;
  }
  EXPECT_GE(kernels, 2 * 6);  // with their out-forms
}

TEST(OperatorTraits, WhatIsNotRegisteredHasNone) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mm", "");
  EXPECT_FALSE(operator_traits(op).in_place);
  EXPECT_TRUE(operator_traits(op).absorbs.empty());
  EXPECT_FALSE(operator_traits(op).pack);
  EXPECT_THROW(add_operator_traits({.op = "wide::layer_norm"}), std::logic_error);
}

TEST(OperatorTraits, ActivationsAreFunctionsOfOneTensorAndNumbers) {
  at::NoGradGuard no_grad;
  const Program p = record({{"x", Role::input, at::randn({3, 4})}}, [](const Tensors& t) {
    return Tensors{at::relu(t[0]),
                   at::silu(t[0]),
                   at::gelu(t[0]),
                   at::gelu(t[0], "tanh"),
                   at::leaky_relu(t[0], 0.2),
                   at::elu(t[0], 1.5),
                   at::threshold(t[0], NAN, 1),
                   at::clamp(t[0], 0.5),
                   at::mm(t[0], t[0].t())};
  });
  std::vector<std::string> names;
  for (const Node& node : p.nodes)
    if (!node.is_view()) names.push_back(activation_text(node));
  EXPECT_EQ(names, (std::vector<std::string>{"relu", "silu", "gelu", "gelu_tanh", "leaky_relu 0.2",
                                             "elu 1.5 1 1", "", "", ""}));
}

TEST(OperatorTraits, SayWhoMayWriteOverAnArgument) {
  const auto writes = [](const char* name, const Tensors& inputs, auto call) {
    std::vector<Binding> bindings;
    for (const Tensor& t : inputs) bindings.push_back({"", Role::input, t});
    const Program p = record(bindings, call);
    for (const Node& node : p.nodes)
      if (node.op.schema().operator_name().name == name) {
        const auto form = find_out_variant(p, node, c10::kCPU);
        return form && form->in_place;
      }
    ADD_FAILURE() << name << " is not there";
    return false;
  };
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({2, 3, 8});
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::layer_norm", "");
  EXPECT_TRUE(writes("wide::layer_norm", {x}, [&](const Tensors& t) {
    Stack stack{t[0], IValue(), IValue(), int64_t{8}, 1e-5, false, "none", false};
    op.callBoxed(&stack);
    return Tensors{stack[0].toTensor()};
  }));
  EXPECT_TRUE(writes("aten::tanh", {x}, [](const Tensors& t) { return Tensors{at::tanh(t[0])}; }));
  EXPECT_FALSE(writes("aten::bmm", {x}, [](const Tensors& t) {
    return Tensors{at::bmm(t[0], t[0].transpose(1, 2))};
  }));
}

}  // namespace
}  // namespace wide::operator_traits_test
