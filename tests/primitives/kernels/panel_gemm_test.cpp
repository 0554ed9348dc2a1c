// The engine's GEMM and the layer made of it, held against float64 under every instruction set.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/check/check.h"
#include "engine/error.h"
#include "engine/widen/capabilities.h"
#include "primitives/kernels/gemm/bf16_linear.h"
#include "primitives/kernels/gemm/packed_linear.h"
#include "primitives/kernels/gemm/panel_gemm.h"
#include "primitives/kernels/pointwise/activations.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::panel_gemm_test {
namespace {

struct Case {
  int64_t n, m, k, o;
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.n << " models " << c.m << "x" << c.k << "x" << c.o;
}

/// Every number of rows and vectors of a block, parts of vectors, sums in several blocks of k, and
/// columns so few that vectors lie along k.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {1, 1, 1, 1},      {3, 5, 7, 11},     {2, 97, 13, 64}, {5, 130, 64, 3}, {7, 8, 257, 17},
      {2, 13, 1031, 53}, {1, 1, 1031, 130}, {2, 7, 3, 193},  {1, 67, 0, 5},   {2, 0, 3, 4},
      {2, 19, 64, 1},    {3, 9, 100, 3},    {1, 1, 256, 4},  {2, 33, 257, 7}, {2, 5, 1031, 2}};
  return all;
}

Tensor call(const Tensor& x, const Tensor& panels, int64_t o, const std::optional<Tensor>& residual,
            const std::string& activation) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::packed_linear", "");
  std::vector<c10::IValue> stack{x, panels, o, residual ? c10::IValue(*residual) : c10::IValue(),
                                 activation};
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

double error(const Tensor& y, const Tensor& expected) {
  return y.numel() == 0 ? 0.0 : max_relative_error({y}, {expected});
}

TEST(PanelGemm, EqualsDoubleAtOddSizesUnderEveryInstructionSet) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    at::manual_seed(1);
    for (const Case& c : cases()) {
      const Tensor x = at::randn({c.n, c.m, c.k}), bias = at::randn({c.n, c.o});
      const Tensor transposed = at::randn({c.n, c.o, c.k}), w = transposed.transpose(1, 2);
      const Tensor product = at::bmm(x.to(at::kDouble), w.to(at::kDouble));
      const Tensor sum = product + bias.unsqueeze(1).to(at::kDouble);
      EXPECT_LT(error(packed_linear(x, pack_panels(w, bias), c.o), sum), 1e-5)
          << target << " " << c;
      EXPECT_LT(error(packed_linear(x, pack_panels(w.contiguous(), {}), c.o), product), 1e-5)
          << target << " " << c;
      // Rows with a gap between them, a bias with one between its elements.
      const Tensor rows = at::constant_pad_nd(x, {2, 1}).narrow(2, 2, c.k);
      const Tensor spread = bias.t().contiguous().t();
      EXPECT_LT(error(packed_linear(rows, pack_panels(w, spread), c.o), sum), 1e-5)
          << target << " " << c;
    }
  });
}

TEST(PanelGemm, ResidualAndActivationComeAfterTheSum) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    for (const Case& c : cases()) {
      const Tensor x = at::randn({c.n, c.m, c.k}), bias = at::randn({c.n, c.o});
      const Tensor w = at::randn({c.n, c.k, c.o}) / std::sqrt(static_cast<double>(c.k + 1));
      const Tensor residual = at::randn({c.n, c.m, c.o});
      const Tensor panels = pack_panels(w, bias);
      const Tensor sum = at::bmm(x.to(at::kDouble), w.to(at::kDouble)) +
                         bias.unsqueeze(1).to(at::kDouble) + residual.to(at::kDouble);
      EXPECT_LT(error(call(x, panels, c.o, residual, "relu"), at::relu(sum)), 1e-5)
          << target << " " << c;
      EXPECT_LT(error(call(x, panels, c.o, residual, "tanh"), at::tanh(sum)), 1e-5)
          << target << " " << c;
    }
  });
  EXPECT_ANY_THROW(
      call(at::randn({1, 2, 3}), pack_panels(at::randn({1, 3, 4}), {}), 4, {}, "sine"));
}

TEST(PanelGemm, SumsInOneOrderWhateverTheBlockAndTheThreads) {
  const at::NoGradGuard guard;
  const int threads = at::get_num_threads();
  for_each_target([&](const std::string& target) {
    for (const Case& c : {Case{3, 29, 1031, 131}, Case{1, 1, 700, 300}, Case{1, 300, 40, 257}}) {
      const Tensor x = at::randn({c.n, c.m, c.k});
      const Tensor panels = pack_panels(at::randn({c.n, c.k, c.o}), at::randn({c.n, c.o}));
      at::set_num_threads(1);
      const Tensor one = call(x, panels, c.o, {}, "gelu");
      at::set_num_threads(2);
      const Tensor two = call(x, panels, c.o, {}, "gelu");
      at::set_num_threads(threads);
      EXPECT_TRUE(one.equal(two)) << target << " " << c;
      // A row by itself is what it is among others.
      const Tensor row = call(x.narrow(1, c.m - 1, 1), panels, c.o, {}, "relu");
      EXPECT_TRUE(row.equal(call(x, panels, c.o, {}, "relu").narrow(1, c.m - 1, 1)))
          << target << " " << c;
    }
  });
}

TEST(PanelGemm, KeepsModelsAndRowsApart) {
  const at::NoGradGuard guard;
  for_each_target([](const std::string& target) {
    const int64_t o = 37;
    Tensor x = at::randn({3, 11, 19}), w = at::randn({3, 19, o});
    const Tensor clean = packed_linear(x, pack_panels(w, {}), o);
    w[1].fill_(NAN);
    x[0][4].fill_(NAN);
    const Tensor y = packed_linear(x, pack_panels(w, {}), o);
    for (int64_t i : {0, 2})
      for (int64_t r = 0; r < 11; ++r) {
        const bool lost = i == 0 && r == 4;
        EXPECT_EQ(y[i][r].isnan().all().item<bool>(), lost) << target << " " << i << " " << r;
        EXPECT_EQ(y[i][r].equal(clean[i][r]), !lost) << target << " " << i << " " << r;
      }
    EXPECT_TRUE(y[1].isnan().all().item<bool>()) << target;
    EXPECT_TRUE(call(x, pack_panels(w, {}), o, {}, "relu")[1].isnan().all().item<bool>()) << target;
  });
}

TEST(PanelGemm, WritesNothingBesideItsResults) {
  for_each_target([](const std::string& target) {
    for (const int64_t o : {1, 5, 16, 17, 63, 100}) {
      const int64_t rows = 3, inner = 600, stride = o + 2;
      const std::vector<float> a(static_cast<size_t>(rows * inner), 1.0F);
      const std::vector<float> w(static_cast<size_t>(inner * o), 0.5F);
      std::vector<float> panels(static_cast<size_t>(panel_gemm::packed_floats(inner, o)));
      panel_gemm::pack({inner, o, w.data(), o, 1, nullptr, 0}, panels.data());
      std::vector<float> out(static_cast<size_t>(rows * stride), -7.0F);
      panel_gemm::Product p;
      p.rows = rows;
      p.inner = inner;
      p.columns = o;
      p.a = a.data();
      p.a_stride = inner;
      p.panels = panels.data();
      p.out = out.data();
      p.out_stride = stride;
      panel_gemm::multiply(p, 0, panel_gemm::panel_count(o));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < stride; ++j)
          ASSERT_EQ(out[static_cast<size_t>(r * stride + j)], j < o ? 300.0F : -7.0F)
              << target << " " << o << " at " << r << ", " << j;
    }
  });
}

TEST(Bf16Linear, IsTheSumInDoubleRoundedOnce) {
  const at::NoGradGuard guard;
  if (!takes("wide::bf16_linear", {at::ones({1}, at::kBFloat16)}))
    GTEST_SKIP() << "this CPU has no instructions for bfloat16";
  for_each_target([](const std::string& target) {
    for (const Case& c : cases()) {
      if (c.m * c.k == 0) continue;
      Tensor x = at::randn({c.n, c.m, c.k}).to(at::kBFloat16);
      const Tensor w = at::randn({c.n, c.o, c.k}).to(at::kBFloat16).transpose(1, 2);
      const Tensor bias = at::randn({c.n, c.o}).to(at::kBFloat16);
      const Tensor product = at::bmm(x.to(at::kDouble), w.to(at::kDouble));
      const Tensor sum = product + bias.to(at::kDouble).unsqueeze(1);
      const auto close = [](const Tensor& y, const Tensor& expected) {
        return at::allclose(y.to(at::kDouble), expected, 1.01 / 256, 2e-5);  // half a last place
      };
      EXPECT_TRUE(close(bf16_linear(x, pack_pairs(w), bias), sum)) << target << " " << c;
      EXPECT_TRUE(close(bf16_linear(x, pack_pairs(w), {}), product)) << target << " " << c;
      const Tensor turned = x.transpose(1, 2).contiguous().transpose(1, 2);
      EXPECT_TRUE(
          bf16_linear(turned, pack_pairs(w), bias).equal(bf16_linear(x, pack_pairs(w), bias)))
          << target << " " << c;
      x[0].fill_(NAN);
      const Tensor lost = bf16_linear(x, pack_pairs(w), bias);
      EXPECT_TRUE(lost[0].isnan().all().item<bool>()) << target << " " << c;
      EXPECT_TRUE(close(lost.narrow(0, 1, c.n - 1), sum.narrow(0, 1, c.n - 1)))
          << target << " " << c;
    }
  });
}

TEST(PanelGemm, RefusesGradients) {
  const Tensor x = at::randn({1, 2, 3}).requires_grad_(), w = at::randn({1, 3, 4});
  EXPECT_ANY_THROW(packed_linear(x, pack_panels(w, {}), 4).sum().backward());
}

}  // namespace
}  // namespace wide::panel_gemm_test
