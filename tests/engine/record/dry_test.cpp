// A dry recording is the recording that computing would have given, and takes no memory for it.
#include "engine/record/dry/dry.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/error.h"
#include "engine/record/dry/recording_budget.h"
#include "engine/record/record.h"

namespace wide::dry_test {
namespace {

using Function = std::function<Tensors(const Tensors&)>;

std::vector<Binding> bindings(const Tensors& tensors) {
  std::vector<Binding> all;
  for (const Tensor& t : tensors) all.push_back({"", Role::input, t});
  return all;
}

Tensors without_memory(const Tensors& tensors) {
  Tensors all;
  for (const Tensor& t : tensors) all.push_back(without_elements(t.sizes(), t.scalar_type()));
  return all;
}

Tensors gradients(const Tensors& in, const Function& function) {
  const at::AutoGradMode grad(true);
  Tensors of;
  for (const Tensor& t : in) of.push_back(t.is_floating_point() ? t.detach().requires_grad_() : t);
  const Tensor made = function(of)[0];
  Tensors floating;
  for (const Tensor& t : of)
    if (t.is_floating_point()) floating.push_back(t);
  return torch::autograd::grad({made}, floating, {at::ones_like(made)});
}

/// Same nodes, sizes, strides and dtypes.
void expect_as_computed(const Tensors& tensors, const Function& function) {
  const std::string computed = record(bindings(tensors), function).text();
  const DryRecording dry;
  EXPECT_EQ(record(bindings(without_memory(tensors)), function).text(), computed);
}

const Tensors& attention() {
  static const Tensors qkv{at::randn({2, 3, 5, 4}), at::randn({2, 3, 7, 4}),
                           at::randn({2, 3, 7, 4})};
  return qkv;
}

Tensors written_out(const Tensors& in) {
  const Tensor scores = at::matmul(in[0], in[1].transpose(-2, -1)) / 2.0;
  const Tensor mask = at::ones({5, 7}, scores.options().dtype(at::kBool)).triu(1);
  return {at::matmul(at::softmax(scores.masked_fill(mask, -INFINITY), -1), in[2])};
}

TEST(DryRecording, IsWhatComputingGives) {
  expect_as_computed(attention(), written_out);
  expect_as_computed(attention(), [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2])};
  });
  expect_as_computed({at::randint(9, {2, 3}), at::randn({9, 4})}, [](const Tensors& in) -> Tensors {
    return {at::silu(at::rms_norm(at::embedding(in[1], in[0]), {4})),
            at::cat({in[1], in[1] * 2}, 1).flatten().unsqueeze(0)};
  });
}

TEST(DryRecording, OfBackwardPassesToo) {
  expect_as_computed(attention(), [](const Tensors& in) { return gradients(in, written_out); });
  expect_as_computed(attention(), [](const Tensors& in) {
    return gradients(in, [](const Tensors& t) -> Tensors {
      return {at::scaled_dot_product_attention(t[0], t[1], t[2])};
    });
  });
  expect_as_computed({at::randint(9, {2, 3}), at::randn({9, 4})}, [](const Tensors& in) {
    return gradients(in, [](const Tensors& t) -> Tensors {
      const Tensor x = at::embedding(t[1], t[0]).flatten(0, 1);
      return {at::cross_entropy_loss(at::rms_norm(x, {4}), t[0].flatten().remainder(4))};
    });
  });
}

/// A GPU's attention, which the CPU has no kernel for: the sizes and strides that PyTorch's Python
/// part gives for these arguments.
TEST(DryRecording, KnowsTheShapesOfAttentionOnAGpu) {
  const DryRecording dry;
  const auto meta = at::TensorOptions().device(c10::kMeta);
  const Tensor q = at::empty({2, 3, 37, 4}, meta), k = at::empty({2, 3, 7, 4}, meta),
               v = at::empty({2, 3, 7, 5}, meta), bias = at::empty({2, 3, 37, 7}, meta);
  using Sizes = std::vector<int64_t>;
  const auto expect = [](const Tensor& t, const Sizes& sizes, const Sizes& strides) {
    EXPECT_EQ(t.sizes(), sizes);
    EXPECT_EQ(t.strides(), strides);
  };
  const auto [out, sums, seed, offset] =
      at::_scaled_dot_product_efficient_attention(q, k, v, bias, /*compute_log_sumexp=*/true);
  expect(out, {2, 3, 37, 5}, {555, 5, 15, 1});
  expect(sums, {2, 3, 64}, {192, 64, 1});
  EXPECT_EQ(seed.dim(), 0);
  EXPECT_EQ(offset.scalar_type(), at::kLong);
  const auto none = at::_scaled_dot_product_efficient_attention(q, k, v, {}, false);
  expect(std::get<1>(none), {2, 3, 0}, {3, 1, 1});
  const auto [dq, dk, dv, dbias] = at::_scaled_dot_product_efficient_attention_backward(
      out, q, k, v, bias, out, sums, seed, offset, 0.0, {true, true, true, true});
  expect(dq, {2, 3, 37, 4}, {444, 4, 12, 1});
  expect(dk, {2, 3, 7, 4}, {84, 4, 12, 1});
  expect(dv, {2, 3, 7, 5}, {105, 5, 15, 1});
  expect(dbias, {2, 3, 37, 7}, {1776, 592, 16, 1});
}

TEST(DryRecording, OfZerosToo) {
  const Tensors in{at::randn({2, 3, 8, 8}), at::randn({4, 3, 3, 3}), at::randn({4})};
  const auto function = [](const Tensors& t) {
    return gradients(t, [](const Tensors& w) -> Tensors {
      const Tensor h = at::conv2d(w[0], w[1], w[2]);  // which has no meta kernel
      const auto halves = at::unsafe_split(at::gelu(h), 2, 1);
      return {at::softmax(halves[0].matmul(halves[1]), -1)};
    });
  };
  const std::string computed = record(bindings(in), function).text();
  const DryRecording dry(Shapes::of_zeros);
  EXPECT_EQ(record(bindings(without_memory(in)), function).text(), computed);
  EXPECT_EQ(record(bindings(in), function).text(), computed);
}

TEST(DryRecording, TakesNoMemoryForIt) {
  const int64_t steps = int64_t{1} << 20;  // scores of 4 TB
  const DryRecording dry;
  const Tensor x = without_elements({1, steps, 4}, at::kFloat);
  const Program program = record(bindings({x, x, x}), [](const Tensors& in) -> Tensors {
    return {at::matmul(at::softmax(at::matmul(in[0], in[1].transpose(1, 2)), -1), in[2])};
  });
  EXPECT_GE(program.peak_bytes(), 2 * 4 * steps * steps);
}

/// Two results of 4 x 3 floats and one of a view, which takes nothing.
TEST(RecordingBudget, EndsWhereCallsMadeMore) {
  const Tensors in{at::ones({4, 3})};
  const auto function = [](const Tensors& t) -> Tensors { return {t[0].exp().t().exp()}; };
  const std::string whole = record(bindings(in), function).text();
  {
    RecordingBudget enough(2 * 4 * 12);
    EXPECT_EQ(record(bindings(in), function).text(), whole);
    EXPECT_FALSE(enough.exceeded());
  }
  {
    RecordingBudget less(2 * 4 * 12 - 1);
    EXPECT_THROW(record(bindings(in), function), std::bad_alloc);
    EXPECT_TRUE(less.exceeded());
  }
  EXPECT_EQ(record(bindings(in), function).text(), whole);
}

TEST(DryRecording, RefusesByNameWhatHasNoKnownShape) {
  const Tensor x = without_elements({3}, at::kFloat);
  const auto message = [&](const Function& function) {
    const DryRecording dry;
    try {
      record(bindings({x}), function);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([](const Tensors& in) -> Tensors { return {at::_cslt_compress(in[0])}; }),
            "[aten::_cslt_compress] dry recording: got an operator without a meta kernel, expected "
            "one whose result's shape is known without computing it; try to record it with its "
            "tensors");
}

}  // namespace
}  // namespace wide::dry_test
