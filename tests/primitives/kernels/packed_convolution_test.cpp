#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/lower/plan/operator_traits.h"
#include "engine/record/record.h"

namespace wide::packed_convolution_test {
namespace {

std::optional<PackedCall> pack(const Node& node, const Tensor& x, const Tensor& y, const Tensor& w,
                               const Tensor& bias, const std::string& activation) {
  const Value input = describe(x), result = describe(y);
  return operator_traits(node.op).pack({node, input, result, w, bias, activation, false});
}

/// Whether packing pays is measured, so plans may or may not use it: here it is always held against
/// the plain operator, in float64.
TEST(PackedConvolution, EqualsThePlainOneInDouble) {
  at::NoGradGuard no_grad;
  int applied = 0;
  for (const auto& [channels, out, groups, stride, bias, relu, last] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t, bool, bool, bool>{3, 5, 1, 1, true, true,
                                                                         false},
        {6, 9, 3, 2, true, false, true},
        {8, 8, 8, 1, false, true, true},
        {14, 21, 7, 1, true, true, false}}) {
    const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const Tensor x = at::randn({2, channels, 7, 11}).contiguous(format);
    const Tensor w = at::randn({out, channels / groups, 3, 3}).contiguous(format);
    const Tensor b = bias ? at::randn({out}) : Tensor();
    std::vector<Binding> bindings{{"x", Role::input, x}, {"w", Role::parameter, w}};
    if (bias) bindings.push_back({"b", Role::parameter, b});
    const Program program = record(bindings, [&, g = groups, s = stride](const Tensors& t) {
      return Tensors{at::convolution(t[0], t[1], t.size() > 2 ? t[2] : Tensor(), {s, s}, {1, 1},
                                     {1, 1}, false, {0, 0}, g)};
    });
    const Node& node = program.nodes.at(0);
    ASSERT_EQ(node.name(), "aten::convolution");
    // The strides a plan would have: those of oneDNN's own result.
    Tensor y = at::convolution(x, w, b, {stride, stride}, {1, 1}, {1, 1}, false, {0, 0}, groups);
    const auto packed = pack(node, x, y, w, b, relu ? "relu" : "");
    if (!packed) continue;
    ++applied;
    Stack stack = packed->stack;
    stack[0] = x;
    stack[1] = packed->pack(w);
    stack[2] = bias ? IValue(b) : IValue();
    packed->op.callBoxed(&stack);
    Tensor expected =
        at::convolution(x.to(at::kDouble), w.to(at::kDouble), bias ? b.to(at::kDouble) : b,
                        {stride, stride}, {1, 1}, {1, 1}, false, {0, 0}, groups);
    if (relu) expected = expected.relu();
    EXPECT_LT(max_relative_error({stack[0].toTensor()}, {expected}), 1e-5)
        << channels << " channels, " << groups << " groups";
  }
  if (applied == 0) GTEST_SKIP() << "oneDNN has no packed convolution here";
}

TEST(PackedConvolution, TakesVolumesAndLeavesTheSeedAlone) {
  at::NoGradGuard no_grad;
  const auto last = at::MemoryFormat::ChannelsLast3d;
  const Tensor x = at::randn({2, 6, 3, 5, 7}).contiguous(last);
  const Tensor w = at::randn({9, 6, 3, 1, 3}).contiguous(last);
  const Sizes ones{1, 1, 1}, padding{1, 0, 1}, zeros{0, 0, 0};
  const auto plain = [&](const Tensor& in, const Tensor& weight) {
    return at::convolution(in, weight, {}, ones, padding, ones, false, zeros, 1);
  };
  const Program program = record({{"x", Role::input, x}, {"w", Role::parameter, w}},
                                 [&](const Tensors& t) -> Tensors { return {plain(t[0], t[1])}; });
  at::manual_seed(3);
  const Tensor drawn = at::randn({4});
  at::manual_seed(3);
  const auto packed = pack(program.nodes.at(0), x, plain(x, w), w, {}, "");
  EXPECT_TRUE(at::randn({4}).equal(drawn));
  if (!packed) GTEST_SKIP() << "oneDNN has no packed convolution of volumes here";
  Stack stack = packed->stack;
  stack[0] = x;
  stack[1] = packed->pack(w);
  packed->op.callBoxed(&stack);
  EXPECT_LT(
      max_relative_error({stack[0].toTensor()}, {plain(x.to(at::kDouble), w.to(at::kDouble))}),
      1e-5);
}

}  // namespace
}  // namespace wide::packed_convolution_test
