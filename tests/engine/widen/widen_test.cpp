#include "engine/widen/widen.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"

namespace wide::widen_test {
namespace {

Network network(std::vector<TensorSpec> tensors, std::function<Tensors(const Tensors&)> forward) {
  Network net;
  net.name = "test";
  net.tensors = std::move(tensors);
  net.forward = std::move(forward);
  net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
  return net;
}

std::vector<WideValue> bound(const Ensemble& ensemble) {
  std::vector<WideValue> values;
  for (size_t i = 0; i < ensemble.tensors.size(); ++i)
    values.push_back({ensemble.tensors[i], !ensemble.shared[i]});
  return values;
}

int64_t count(const Program& program, const std::string& op) {
  return std::count_if(program.nodes.begin(), program.nodes.end(),
                       [&](const Node& node) { return node.name() == op; });
}

/// Backbone (shared weights, shared input) under a head per model.
Network heads() {
  return network({{"backbone", Role::parameter, {8, 6}},
                  {"head", Role::parameter, {3, 8}},
                  {"x", Role::input, {5, 6}}},
                 [](const Tensors& t) {
                   return Tensors{at::linear(at::exp(at::linear(t[2], t[0]) * 0.1), t[1])};
                 });
}

Ensemble share(Ensemble ensemble, std::vector<size_t> which) {
  for (size_t i : which) {
    ensemble.tensors[i] = ensemble.tensors[i].select(0, 0).contiguous();
    ensemble.shared[i] = true;
  }
  return ensemble;
}

TEST(Widen, WithoutHistoryResultsRequireGradientsAllTheSame) {
  const Network net = heads();
  const Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 1);
  const Program single = record_single(net, ensemble, /*grad=*/true);
  WidenOptions options;
  for (const size_t of : {size_t{0}, size_t{1}, size_t{2}}) {
    std::vector<WideValue> values = bound(ensemble);
    values[of].tensor = values[of].tensor.detach().requires_grad_();
    std::vector<bool> required;
    options.choose = [&](const ClaimedCall& claimed) {
      required.push_back(claimed.call.inputs[0].requires_grad());
      required.push_back(claimed.call.inputs[1].requires_grad());
      return claimed.applicable.front();
    };
    options.no_history = true;
    const Tensor made = evaluate_wide(single, 3, values, options, nullptr).at(0).tensor;
    EXPECT_TRUE(made.requires_grad());
    EXPECT_TRUE(made.is_leaf()) << "its history is kept";
    EXPECT_EQ(required, (std::vector<bool>{of == 2, of == 0, of != 1, of == 1}));
    options.no_history = false;
    EXPECT_FALSE(evaluate_wide(single, 3, values, options, nullptr).at(0).tensor.is_leaf());
  }
}

TEST(Widen, ComputesSharedWorkOnce) {
  at::NoGradGuard no_grad;
  const Network net = heads();
  const Ensemble ensemble = share(generate(net, 5, at::kFloat, at::kCPU, 1), {0, 2});
  const Program single = record_single(net, ensemble);
  const WideProgram wide = widen(single, 5, bound(ensemble));
  EXPECT_EQ(count(wide.program, "aten::exp"), 1);
  for (const Node& node : wide.program.nodes) {
    if (node.name() != "aten::exp") continue;
    EXPECT_EQ(wide.program.value(node.results[0].values[0]).sizes, (Sizes{5, 8}));
  }
  EXPECT_GT(wide.coverage.counts().at(Way::shared), 0);
  for (int ranges : {1, 2, 3, 5}) {
    CompileOptions options;
    options.ranges = ranges;
    options.threads = 2;
    auto model = compile(net, ensemble, options);
    const Correctness c = check(net, single, ensemble, as_function(*model, net), 1e-5);
    EXPECT_TRUE(c.pass) << ranges << ": " << c.failure;
  }
}

TEST(Widen, CountsPerModelAndSaysWhy) {
  at::NoGradGuard no_grad;
  const Network net = network({{"x", Role::input, {4, 5}}},
                              [](const Tensors& t) { return Tensors{at::histc(t[0], 7)}; });
  const Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 2);
  const Program single = record_single(net, ensemble);
  const WideProgram wide = widen(single, 3, bound(ensemble));
  ASSERT_EQ(wide.coverage.items.size(), 1U);
  EXPECT_EQ(wide.coverage.items[0].way, Way::per_model);
  EXPECT_EQ(wide.coverage.items[0].reason, "aten::histc has no batching rule");
  // The failed attempt left nothing behind: three calls, their slices, one stack.
  EXPECT_EQ(count(wide.program, "aten::histc"), 3);
  const Tensor got = interpret(wide.program, ensemble.tensors)[0];
  EXPECT_LT(max_relative_error({got}, in_double(single, ensemble)), 1e-6);
}

TEST(Widen, ErrorsOtherThanMissingRulesAreErrors) {
  at::NoGradGuard no_grad;
  const Network net = network({{"x", Role::input, {4, 5}}},
                              [](const Tensors& t) { return Tensors{at::exp(t[0])}; });
  Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 2);
  const Program single = record_single(net, ensemble);
  ensemble.tensors[0] = ensemble.tensors[0].to(at::kLong).to_sparse();  // exp has no such kernel
  EXPECT_ANY_THROW(evaluate_wide(single, 3, bound(ensemble), {}, nullptr));
}

TEST(Widen, ForcesEveryWay) {
  at::NoGradGuard no_grad;
  const Network net = heads();
  const Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 3);
  const Program single = record_single(net, ensemble);
  const Tensors expected = in_double(single, ensemble);
  for (const std::string way : {"per_model", "vmap"}) {
    WidenOptions options;
    options.force["*"] = way;
    const WideProgram wide = widen(single, 3, bound(ensemble), options);
    for (const CoverageItem& item : wide.coverage.items) EXPECT_EQ(to_string(item.way), way);
    EXPECT_LT(max_relative_error(interpret(wide.program, ensemble.tensors), expected), 1e-5);
  }
}

TEST(Widen, StrictForcesRefuseWithTheReason) {
  at::NoGradGuard no_grad;
  const Network net = heads();
  const Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 3);
  const Program single = record_single(net, ensemble);
  WidenOptions options;
  options.strict = true;
  options.force["linear"] = "baddbmm";  // there is no bias here
  try {
    widen(single, 3, bound(ensemble), options);
    FAIL() << "not refused";
  } catch (const Unsupported& e) {
    EXPECT_STREQ(e.what(), "[linear/baddbmm] bias: got none, expected a bias to add; try einsum");
  }
}

TEST(Widen, DrawsDifferentMasksForOneSetOfWeights) {
  at::NoGradGuard no_grad;
  const Network net = network(
      {{"w", Role::parameter, {16, 16}}, {"x", Role::input, {4, 16}}},
      [](const Tensors& t) { return Tensors{at::dropout(at::linear(t[1], t[0]), 0.5, true)}; });
  const Ensemble ensemble = share(generate(net, 4, at::kFloat, at::kCPU, 3), {0, 1});
  auto model = compile(net, ensemble, {});
  const Tensor y = model->run({ensemble.tensors[1]})[0];
  ASSERT_EQ(y.sizes(), (c10::IntArrayRef{4, 4, 16}));
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < i; ++j) EXPECT_FALSE(y[i].equal(y[j])) << i << " " << j;
  // The product itself is computed once.
  EXPECT_GT(model->coverage().counts().at(Way::shared), 0);
}

TEST(Widen, EstimatesMemoryBeforeItIsTaken) {
  at::NoGradGuard no_grad;
  const Network net = heads();
  const Ensemble ensemble = generate(net, 2, at::kFloat, at::kCPU, 3);
  const Program single = record_single(net, ensemble);
  // Bound 8*6 + 3*8 + 5*6 = 102; exp reads 5*8 scaled into another 5*8: 182 floats at the worst.
  EXPECT_EQ(single.peak_bytes(), 182 * 4);
  EXPECT_EQ(estimate_bytes(single, 1000), 182 * 4 * 1000);
}

}  // namespace
}  // namespace wide::widen_test
