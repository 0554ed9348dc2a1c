#include "engine/measure/roofline.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/compile.h"

namespace wide::roofline_test {
namespace {

Program recorded(const Tensors& tensors, const std::function<Tensors(const Tensors&)>& function) {
  const at::NoGradGuard no_grad;
  std::vector<Binding> bindings;
  for (const Tensor& t : tensors) bindings.push_back({"t", Role::input, t});
  return record(bindings, function);
}

double flops(const Tensors& tensors, const std::function<Tensors(const Tensors&)>& function) {
  return count_work(recorded(tensors, function), 1, {}).flops;
}

TEST(Roofline, CountsMatrixProductsAndConvolutionsByHand) {
  EXPECT_EQ(flops({at::randn({5, 7}), at::randn({7, 3})},
                  [](const Tensors& t) -> Tensors { return {at::mm(t[0], t[1])}; }),
            2 * 5 * 7 * 3);
  EXPECT_EQ(flops({at::randn({2, 5, 7}), at::randn({2, 7, 3})},
                  [](const Tensors& t) -> Tensors { return {at::bmm(t[0], t[1]).relu()}; }),
            2 * 2 * 5 * 7 * 3 + 2 * 5 * 3);
  EXPECT_EQ(flops({at::randn({5, 7}), at::randn({7}), at::randn({7})},
                  [](const Tensors& t) -> Tensors {
                    return {at::mv(t[0], t[1]), at::dot(t[1], t[2])};
                  }),
            2 * 5 * 7 + 2 * 7);
  // A bias inside of a product (addmv, as addmm) is not counted.
  EXPECT_EQ(flops({at::randn({7}), at::randn({5, 7}), at::randn({5})},
                  [](const Tensors& t) -> Tensors { return {at::linear(t[0], t[1], t[2])}; }),
            2 * 5 * 7);
  // 11 filters of 4/2 x 3 x 3 over an 8 x 8 input with padding 1 and stride 2: 4 x 4 places.
  EXPECT_EQ(
      flops({at::randn({2, 4, 8, 8}), at::randn({12, 2, 3, 3})},
            [](const Tensors& t) -> Tensors { return {at::conv2d(t[0], t[1], {}, 2, 1, 1, 2)}; }),
      2.0 * (2 * 12 * 4 * 4) * (2 * 3 * 3));
  // Transposed: every input element meets every weight of its channel.
  EXPECT_EQ(flops({at::randn({2, 4, 5, 5}), at::randn({4, 3, 2, 2})},
                  [](const Tensors& t) -> Tensors { return {at::conv_transpose2d(t[0], t[1])}; }),
            2.0 * (2 * 4 * 5 * 5) * (3 * 2 * 2));
}

TEST(Roofline, GradientsOfATransposedConvolutionCostWhatItCostsEach) {
  // From 5 x 5 to 10 x 10: what is large is not the side whose elements meet every weight once.
  const auto backward = [](const Tensors& t) -> Tensors {
    const auto [x, w, b] =
        at::convolution_backward(t[0], t[1], t[2], at::OptionalIntArrayRef(), {2, 2}, {0, 0},
                                 {1, 1}, /*transposed=*/true, {0, 0}, 1, {true, true, false});
    return {x, w};
  };
  EXPECT_EQ(flops({at::randn({2, 3, 10, 10}), at::randn({2, 4, 5, 5}), at::randn({4, 3, 2, 2})},
                  backward),
            2 * 2.0 * (2 * 4 * 5 * 5) * (3 * 2 * 2));
}

TEST(Roofline, CountsWhatReductionsRead) {
  const Tensor x = at::randn({3, 5, 7});
  const auto of_x = [&](const std::function<Tensors(const Tensor&)>& function) {
    return flops({x}, [&](const Tensors& t) { return function(t[0]); });
  };
  EXPECT_EQ(of_x([](const Tensor& t) -> Tensors { return {at::mean(t, {1, 2})}; }), 3 * 5 * 7);
  EXPECT_EQ(of_x([](const Tensor& t) -> Tensors { return {at::sum(t).relu()}; }), 3 * 5 * 7 + 1);
  EXPECT_EQ(of_x([](const Tensor& t) -> Tensors {
              const auto [variance, mean] = at::var_mean(t, {2}, true);
              return {variance, mean, at::argmax(t, 1)};
            }),
            2 * 3 * 5 * 7);
  EXPECT_EQ(of_x([](const Tensor& t) -> Tensors { return {std::get<0>(at::max(t, 0))}; }),
            3 * 5 * 7);
  // Of two tensors it is no reduction.
  EXPECT_EQ(of_x([](const Tensor& t) -> Tensors { return {at::max(t.select(0, 0), t)}; }),
            3 * 5 * 7);
}

TEST(Roofline, CountsWhatPoolingWindowsRead) {
  const auto of_image = [](const std::function<Tensor(const Tensor&)>& function) {
    return flops({at::randn({2, 3, 7, 11})},
                 [&](const Tensors& t) -> Tensors { return {function(t[0])}; });
  };
  EXPECT_EQ(of_image([](const Tensor& t) {
              return at::adaptive_avg_pool2d(t, {1, 1});
            }),
            2 * 3 * 7 * 11);
  // Of 7 rows in 3 windows two are in two of them, and so are three of 11 columns in 4.
  EXPECT_EQ(of_image([](const Tensor& t) {
              return at::adaptive_avg_pool2d(t, {3, 4});
            }),
            2 * 3 * (7 + 2) * (11 + 3));
  EXPECT_EQ(of_image([](const Tensor& t) {
              return at::avg_pool2d(t, {3, 2}, {2, 1});
            }),
            2 * 3 * (3 * 10) * (3 * 2));
  EXPECT_EQ(of_image([](const Tensor& t) { return at::max_pool2d(t, 3, 2); }),
            2 * 3 * (3 * 5) * (3 * 3));
}

TEST(Roofline, CountsBytesOnceWhereShared) {
  const Program program =
      recorded({at::randn({5, 7}), at::randn({7, 3}), at::randn({100})},
               [](const Tensors& t) -> Tensors { return {at::mm(t[0], t[1])}; });
  EXPECT_EQ(count_work(program, 1, {}).bytes, 4 * (35 + 21 + 15));  // the third is not read
  EXPECT_EQ(count_work(program, 10, {}).bytes, 40 * (35 + 21 + 15));
  EXPECT_EQ(count_work(program, 10, {true, false, false}).bytes, 4 * (35 + 210 + 150));
  EXPECT_EQ(count_work(program, 10, {}).flops, 10 * count_work(program, 1, {}).flops);
}

Peaks peaks() {
  Peaks p;
  p.threads = 1;
  p.flops_per_s[at::kFloat] = 100e9;
  p.bandwidth = {{1e6, 100e9}, {1e9, 10e9}};
  p.step_ns = 500;
  return p;
}

Timing judged(double median_ns, double flops, double bytes, int64_t steps,
              double side_by_side = 1) {
  Timing t;
  t.median_ns = median_ns;
  t.steps = steps;
  judge(t, {flops, bytes}, peaks(), at::kFloat, side_by_side);
  return t;
}

TEST(Roofline, OneWordWhyItIsNoFaster) {
  const Timing compute = judged(1e6, 60e6, 1e5, 10);
  EXPECT_EQ(compute.bound, "compute");
  EXPECT_DOUBLE_EQ(compute.flops_share, 0.6);
  EXPECT_DOUBLE_EQ(compute.bytes_share, 1e-3);  // of the caches' bandwidth: it fits
  EXPECT_EQ(judged(1e6, 1e6, 8e6, 10).bound, "memory");
  EXPECT_DOUBLE_EQ(judged(1e6, 1e6, 8e6, 10).bytes_share, 0.8);
  EXPECT_EQ(judged(1e6, 1e6, 1e5, 1500).bound, "launch");
  EXPECT_EQ(judged(1e6, 1e6, 1e5, 1500, 2).bound, "unknown");  // two threads launch side by side
  EXPECT_EQ(judged(1e6, 35e6, 3e6, 500).bound, "unknown");
  EXPECT_EQ(judged(0, 35e6, 3e6, 500).bound, "");  // was not timed
  Timing other;
  other.median_ns = 1e6;
  judge(other, {60e6, 1e5}, peaks(), at::kHalf);
  EXPECT_EQ(other.flops_share, 0);  // of a peak that was not measured
}

TEST(Roofline, MeasuresThisMachine) {
  const Peaks measured = measure_peaks(c10::kCPU, 1);
  EXPECT_EQ(measured.threads, 1);
  ASSERT_EQ(measured.bandwidth.size(), 3u);
  EXPECT_GT(measured.memory_bytes_per_s(), 1e8);
  EXPECT_LT(measured.memory_bytes_per_s(), 1e12);
  EXPECT_GT(measured.step_ns, 20);
  EXPECT_LT(measured.step_ns, 1e5);
  // A loop over scalars is no peak; no core does more than 10^12.
  const double f32 = measured.flops_per_s.at(at::kFloat),
               f64 = measured.flops_per_s.at(at::kDouble);
  EXPECT_GT(f32, 2e9);
  EXPECT_LT(f32, 1e12);
  EXPECT_GT(f32, f64);
  // Against a clock of our own: no product can be faster than the peak says, beyond its noise.
  const Tensor a = at::ones({512, 512}), b = at::ones({512, 512});
  MeasureOptions options;
  options.budget_s = 0.05;
  const Timing t = measure({{"mm", "candidate", [&] { at::mm(a, b); }}}, options)[0];
  EXPECT_LT(2.0 * 512 * 512 * 512 / t.median_ns, 2 * f32 / 1e9);
}

}  // namespace
}  // namespace wide::roofline_test
