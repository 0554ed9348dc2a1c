// The float64 reference of networks with a GPU's fused attentions, which know no double precision.
#include "engine/check/exact_operators.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/check/check.h"

namespace wide::exact_operators_test {
namespace {

constexpr int64_t kHeads = 2, kRows = 5, kColumns = 7, kWidth = 3;

struct Kind {
  const char* name;
  bool biased, causal;
  std::optional<double> scale;
};

Ensemble drawn(bool biased) {
  at::manual_seed(7);
  Ensemble e;
  e.n = 3;
  e.tensors = {
      at::randn({3, 1, kHeads, kRows, kWidth}), at::randn({3, 1, kHeads, kColumns, kWidth}),
      at::randn({3, 1, kHeads, kColumns, kWidth}), at::randn({3, 1, kHeads, kRows, kWidth})};
  if (biased) e.tensors.push_back(at::randn({3, 1, kHeads, kRows, kColumns}));
  e.shared.assign(e.tensors.size(), false);
  return e;
}

/// As a GPU records it: the fused operator, and behind it its gradient.
Program fused(const Kind& kind, const Ensemble& e) {
  Program p;
  for (const Tensor& t : e.model(0)) {
    Value v = describe(t);
    v.role = Role::input;
    p.bound.push_back(p.add_value(v));
  }
  const auto named = [&](const std::string& suffix) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(
        (std::string("aten::_scaled_dot_product_") + kind.name + "_attention" + suffix).c_str(),
        "");
  };
  // Heads lie beside each other in each step.
  const auto made = [&](const Tensor& like) {
    return p.add_value(
        describe(like.dim() == 4 ? like.transpose(1, 2).contiguous().transpose(1, 2) : like));
  };
  const ValueId output = made(e.model(0)[3]);
  const std::vector<ValueId> gradients = {made(e.model(0)[0]), made(e.model(0)[1]),
                                          made(e.model(0)[2]),
                                          kind.biased ? made(e.model(0)[4]) : kNone};
  const ValueId other = made(at::zeros({1}));
  for (const bool backward : {false, true}) {
    Node node{named(backward ? "_backward" : ""), {}, {}, {}};
    for (const auto& argument : node.op.schema().arguments()) {
      const std::string& name = argument.name();
      const auto of = [&](ValueId id) { node.arguments.push_back(Argument::of_value(id)); };
      if (name == "query")
        of(p.bound[0]);
      else if (name == "key")
        of(p.bound[1]);
      else if (name == "value")
        of(p.bound[2]);
      else if (name == "grad_out" || name == "grad_out_")
        of(p.bound[3]);
      else if (name == "attn_bias")
        of(kind.biased ? p.bound[4] : kNone);
      else if (name == "out")
        of(output);
      else if (argument.type()->kind() == c10::TypeKind::TensorType)
        of(other);
      else if (name == "is_causal")
        node.arguments.push_back(Argument::of(kind.causal));
      else if (name == "dropout_p")
        node.arguments.push_back(Argument::of(0.0));
      else if (name == "scale")
        node.arguments.push_back(Argument::of(kind.scale ? IValue(*kind.scale) : IValue()));
      else
        node.arguments.push_back(Argument::of(argument.default_value().value_or(IValue())));
    }
    for (size_t k = 0; k < node.op.schema().returns().size(); ++k)
      node.results.push_back(Argument::of_value(backward ? (k < 4 ? gradients[k] : kNone)
                                                : k == 0 ? output
                                                : k == 1 ? other
                                                         : kNone));
    p.nodes.push_back(std::move(node));
  }
  // What networks make of the output, a view of it.
  const Tensor steps = e.model(0)[3].transpose(1, 2).contiguous();
  const ValueId turned = p.add_value(describe(steps)),
                flat = p.add_value(describe(steps.flatten(2)));
  const auto view = [&](const char* name, const char* overload, std::vector<Argument> arguments,
                        ValueId result) {
    Node node{c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), {}, {}, {}};
    node.arguments = std::move(arguments);
    node.results = {Argument::of_value(result)};
    p.nodes.push_back(std::move(node));
  };
  view("aten::transpose", "int",
       {Argument::of_value(output), Argument::of(int64_t{1}), Argument::of(int64_t{2})}, turned);
  view("aten::view", "",
       {Argument::of_value(turned), Argument::of(std::vector<int64_t>{1, kRows, kHeads * kWidth})},
       flat);
  p.outputs = {flat, gradients[0], gradients[1], gradients[2]};
  if (kind.biased) p.outputs.push_back(gradients[3]);
  return p;
}

/// PyTorch's own, in double precision and by autograd.
Tensors separate_in_double(const Kind& kind, const Tensors& own) {
  const at::AutoGradMode grad(true);
  Tensors t;
  for (const Tensor& one : own) t.push_back(one.to(at::kDouble).requires_grad_());
  Tensor scores =
      at::matmul(t[0], t[1].mT()) * kind.scale.value_or(1 / std::sqrt(static_cast<double>(kWidth)));
  if (kind.biased) scores = scores + t[4];
  if (kind.causal)
    scores = scores.masked_fill(at::ones({kRows, kColumns}, at::kBool).triu(1), -INFINITY);
  const Tensor output = at::matmul(at::softmax(scores, -1), t[2]);
  Tensors of = {t[0], t[1], t[2]}, results = {output.detach().transpose(1, 2).flatten(2)};
  if (kind.biased) of.push_back(t[4]);
  for (const Tensor& g : torch::autograd::grad({output}, of, {t[3]})) results.push_back(g);
  return results;
}

TEST(ExactOperators, AttentionOfAGpuHasAReferenceInDouble) {
  for (const Kind& kind : {Kind{"efficient", true, false, {}}, Kind{"efficient", false, true, 0.3},
                           Kind{"flash", false, true, {}}, Kind{"flash", false, false, 1.7},
                           Kind{"cudnn", false, true, {}}}) {
    SCOPED_TRACE(kind.name);
    const Ensemble e = drawn(kind.biased);
    const Tensors got = in_double(fused(kind, e), e);
    for (int64_t i = 0; i < e.n; ++i) {
      const Tensors right = separate_in_double(kind, e.model(i));
      ASSERT_EQ(got.size(), right.size());
      for (size_t k = 0; k < right.size(); ++k)
        EXPECT_TRUE(at::allclose(got[k][i], right[k], 1e-12, 1e-12)) << "result " << k;
    }
  }
}

TEST(ExactOperators, WhatDropsOutStays) {
  const Ensemble e = drawn(false);
  Program p = fused({"flash", false, false, {}}, e);
  for (Node& node : p.nodes)
    for (size_t i = 0; i < node.arguments.size(); ++i)
      if (node.op.schema().arguments()[i].name() == "dropout_p")
        node.arguments[i] = Argument::of(0.1);
  EXPECT_EQ(in_exact_operators(p).text(), p.text());
}

}  // namespace
}  // namespace wide::exact_operators_test
