// Chains of pointwise operators beside ATen's in float64, under every instruction set.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>

#include "engine/passes/pass.h"
#include "engine/record/record.h"
#include "primitives/kernels/pointwise/chain_code.h"
#include "tests/primitives/kernels/called_operators.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::chain_test {
namespace {

using at::Tensor;

Tensor chain_of(const std::vector<Tensor>& inputs, const std::string& code) {
  std::vector<int64_t> sizes;
  for (const Tensor& t : inputs) sizes = at::infer_size(sizes, t.sizes());
  return chain(inputs, code, at::empty(sizes).strides());
}

/// Every so many of all floats, and those at which something changes.
Tensor all_kinds_of_floats(uint64_t step) {
  std::vector<float> values{0.0F,    -0.0F,    INFINITY, -INFINITY, NAN,          -NAN,
                            1.0F,    -1.0F,    20.0F,    -20.0F,    88.72F,       88.73F,
                            89.0F,   -87.0F,   -88.0F,   -103.9F,   -104.1F,      3.0F,
                            -3.0F,   0.5F,     -0.5F,    1e-45F,    -1e-45F,      8192.0F,
                            8193.0F, 0.92773F, 3.4e38F,  -3.4e38F,  -6.78301191F, -16.6476F};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32U); bits += step)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return at::tensor(values);
}

struct Function {
  std::string code;
  double ulps;
  std::function<Tensor(const Tensor&)> exact;
  double absolute = 0;  // of |x|, and of one
  double denormal = 0;
};

/// ATen's own derivative, which knows no infinity.
template <class Backward, class... More>
Tensor slope(const Backward& backward, const Tensor& x, const More&... more) {
  return backward(at::ones_like(x), x.clamp(-1e3, 1e3), more...);
}

const std::vector<Function>& functions() {
  using at::Scalar;
  static const std::vector<Function> all{
      {"exp x0", 2, [](const Tensor& x) { return at::exp(x); }},
      {"expm1 x0", 2, [](const Tensor& x) { return at::expm1(x); }},
      {"log x0", 2, [](const Tensor& x) { return at::log(x); }},
      {"log1p x0", 2, [](const Tensor& x) { return at::log1p(x); }},
      {"tanh x0", 3, [](const Tensor& x) { return at::tanh(x); }},
      {"sigmoid x0", 3, [](const Tensor& x) { return at::sigmoid(x); }},
      {"silu x0", 4, [](const Tensor& x) { return at::silu(x); }, 0, 1e-43},
      {"erf x0", 2, [](const Tensor& x) { return at::erf(x); }},
      {"gelu x0", 4, [](const Tensor& x) { return at::gelu(x); }, 2.5e-7},
      {"gelu_tanh x0", 4, [](const Tensor& x) { return at::gelu(x, "tanh"); }, 1.2e-7},
      {"mish x0", 5, [](const Tensor& x) { return at::mish(x); }, 0, 1e-43},
      {"elu x0 1 1 1", 3, [](const Tensor& x) { return at::elu(x); }},
      {"elu x0 1.5 2 0.5", 3, [](const Tensor& x) { return at::elu(x, 1.5, 2, 0.5); }},
      {"softplus x0 1 20", 3, [](const Tensor& x) { return at::softplus(x); }},
      {"softplus x0 2 8", 3, [](const Tensor& x) { return at::softplus(x, 2, 8); }},
      {"hardsigmoid x0", 3, [](const Tensor& x) { return at::hardsigmoid(x); }, 6e-8},
      {"hardswish x0", 3, [](const Tensor& x) { return at::hardswish(x); }, 6e-8},
      {"sin x0", 2, [](const Tensor& x) { return at::sin(x); }},
      {"cos x0", 2, [](const Tensor& x) { return at::cos(x); }},
      {"sqrt x0", 0.5, [](const Tensor& x) { return at::sqrt(x); }},
      {"rsqrt x0", 2, [](const Tensor& x) { return at::rsqrt(x); }},
      {"reciprocal x0", 0.5, [](const Tensor& x) { return at::reciprocal(x); }},
      {"square x0", 0.5, [](const Tensor& x) { return at::square(x); }},
      {"relu x0", 0, [](const Tensor& x) { return at::relu(x); }},
      {"neg x0", 0, [](const Tensor& x) { return at::neg(x); }},
      {"abs x0", 0, [](const Tensor& x) { return at::abs(x); }},
      {"copy x0", 0, [](const Tensor& x) { return x; }},
      {"floor x0", 0, [](const Tensor& x) { return at::floor(x); }},
      {"ceil x0", 0, [](const Tensor& x) { return at::ceil(x); }},
      {"trunc x0", 0, [](const Tensor& x) { return at::trunc(x); }},
      {"round x0", 0, [](const Tensor& x) { return at::round(x); }},
      {"sign x0", 0, [](const Tensor& x) { return at::sign(x); }},
      {"leaky_relu x0 0.5", 0.5, [](const Tensor& x) { return at::leaky_relu(x, 0.5); }},
      {"clamp x0 -2 3", 0, [](const Tensor& x) { return at::clamp(x, -2, 3); }},
      {"clamp x0 -inf 3", 0, [](const Tensor& x) { return at::clamp_max(x, 3); }},
      {"threshold x0 1 7", 0, [](const Tensor& x) { return at::threshold(x, 1, 7); }},
      {"logical_not x0", 0, [](const Tensor& x) { return at::logical_not(x); }},
      {"gelu_slope x0", 4, [](const Tensor& x) { return slope(at::gelu_backward, x, "none"); },
       5e-7},
      {"gelu_tanh_slope x0", 4, [](const Tensor& x) { return slope(at::gelu_backward, x, "tanh"); },
       5e-7},
      {"silu_slope x0", 4, [](const Tensor& x) { return slope(at::silu_backward, x); }, 5e-7},
      {"elu_slope x0 1.5 2 0.5", 3,
       [](const Tensor& x) {
         const Tensor y = at::elu_backward(at::ones_like(x), 1.5, 2, 0.5, false, x);
         return at::where(x.isnan(), 2, y);  // NaN is not below zero
       }},
  };
  return all;
}

/// The first element that is further from the exact function than it may be, in words.
std::string wrong(const Function& f, const Tensor& x, const Tensor& y, const Tensor& exact) {
  const Tensor got = y.to(at::kDouble), rounded = exact.to(at::kFloat).to(at::kDouble);
  const auto* px = x.const_data_ptr<float>();
  const auto *pg = got.const_data_ptr<double>(), *pr = rounded.const_data_ptr<double>(),
             *pe = exact.const_data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const bool same = pg[i] == pr[i] || (std::isnan(pg[i]) && std::isnan(pe[i]));
    if (same) continue;
    const double ulp =
        std::ldexp(1.0, std::max(std::ilogb(std::max(std::abs(pr[i]), 1e-45)) - 23, -149));
    // Half a unit of rounding below the largest float is infinity.
    const bool edge = std::isinf(pg[i]) && std::abs(pe[i]) > 3.4028228e38;
    const double allowed =
        std::max({f.ulps * ulp, f.absolute * std::min(std::abs(double{px[i]}), 10.0),
                  std::abs(pe[i]) < 2e-36 ? f.denormal : 0.0, 7.1e-46});
    if (edge || std::abs(pg[i] - pe[i]) <= allowed) continue;
    return fmt::format("of {} is {}, expected {}", px[i], pg[i], pe[i]);
  }
  return "";
}

TEST(Chain, FunctionsAreAsExactAsTheySayOverAllFloats) {
  const at::NoGradGuard guard;
  const Tensor x = all_kinds_of_floats(100003);
  for (const Function& f : functions()) {
    const Tensor exact = f.exact(x.to(at::kDouble)).to(at::kDouble);
    for_each_target([&](const std::string& target) {
      EXPECT_EQ(wrong(f, x, chain_of({x}, f.code), exact), "") << f.code << " under " << target;
    });
  }
}

/// Minutes: all that there are. --gtest_also_run_disabled_tests
TEST(Chain, DISABLED_FunctionsAreExactAtEveryFloat) {
  constexpr int64_t kPart = 1 << 16;  // stays in the caches
  for (const size_t which : {0, 4, 7, 13}) {
    const Function& f = functions()[which];
    std::atomic<int64_t> seen = 0;
    std::mutex mutex;
    std::string first_wrong;
    at::parallel_for(0, (int64_t{1} << 32) / kPart, 1, [&](int64_t begin, int64_t end) {
      const at::NoGradGuard guard;
      for (int64_t part = begin; part < end; ++part) {
        const Tensor x =
            at::arange(part * kPart, (part + 1) * kPart, at::kLong).to(at::kInt).view(at::kFloat);
        const std::string found = wrong(f, x, chain_of({x}, f.code), f.exact(x.to(at::kDouble)));
        seen += x.numel();
        if (found.empty()) continue;
        const std::lock_guard<std::mutex> lock(mutex);
        if (first_wrong.empty()) first_wrong = found;
      }
    });
    EXPECT_EQ(first_wrong, "") << f.code;
    EXPECT_EQ(seen, int64_t{1} << 32) << f.code;
  }
}

TEST(Chain, OperatorsOfTwoAndThreeEqualAten) {
  const at::NoGradGuard guard;
  at::manual_seed(1);
  const Tensor odd = at::tensor({NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 1.0F, -1.0F});
  const Tensor a = at::cat({at::randn({91}), odd.repeat_interleave(7)});
  const Tensor b = at::cat({at::randn({91}), odd.repeat({7})});
  const std::vector<std::pair<std::string, Tensor>> expected{
      {"add x0 x1", a + b},
      {"sub x0 x1", a - b},
      {"mul x0 x1", a * b},
      {"div x0 x1", a / b},
      {"maximum x0 x1", at::maximum(a, b)},
      {"minimum x0 x1", at::minimum(a, b)},
      {"eq x0 x1", a.eq(b)},
      {"ne x0 x1", a.ne(b)},
      {"lt x0 x1", a.lt(b)},
      {"le x0 x1", a.le(b)},
      {"gt x0 x1", a.gt(b)},
      {"ge x0 x1", a.ge(b)},
      {"logical_and x0 x1", at::logical_and(a, b)},
      {"logical_or x0 x1", at::logical_or(a, b)},
      {"gt x0 x1; where t0 x1 x0", at::where(a > b, b, a)},
      {"gt x0 0.25; where t0 2 x1", at::where(a > 0.25, at::scalar_tensor(2.0F), b)},
  };
  for_each_target([&](const std::string& target) {
    for (const auto& [code, y] : expected) {
      const Tensor made = chain_of({a, b}, code);
      EXPECT_EQ(made.scalar_type(), y.scalar_type()) << code;
      EXPECT_TRUE(at::allclose(made.to(at::kFloat), y.to(at::kFloat), 0, 0, true))
          << code << " under " << target;
    }
  });
}

/// tanh(a b + c) where the mask holds, else minus that of a.
constexpr const char* kCode = "mul x0 x1; add t0 x2; tanh t1; neg x0; where x3 t2 t3";

void expect_right(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& mask,
                  const std::string& what) {
  const auto exact = [](const Tensor& t) { return t.to(at::kDouble); };
  const Tensor expected = at::where(mask, at::tanh(exact(a) * exact(b) + exact(c)), -exact(a));
  const Tensor like = at::where(mask, a + b + c, a);  // ATen's choice of strides
  Tensor y = chain({a, b, c, mask}, kCode, like.strides());
  ASSERT_EQ(y.sizes(), expected.sizes()) << what;
  EXPECT_EQ(y.strides(), like.strides()) << what;
  if (y.numel() > 0) {
    EXPECT_LT((y.to(at::kDouble) - expected).abs().max().item<double>(), 1e-6) << what;
  }
}

TEST(Chain, BroadcastsWhateverTheLayout) {
  const at::NoGradGuard guard;
  at::manual_seed(2);
  const auto holds = [](at::IntArrayRef sizes) { return at::rand(sizes).gt(0.5); };
  for_each_target([&](const std::string& target) {
    for (const int64_t d : {1, 3, 16, 17, 1000, 2311}) {
      const Tensor x = at::randn({3, 5, d});
      expect_right(x, at::randn({3, 1, d}), at::randn({3, 1, 1}), holds({3, 5, d}), target);
      expect_right(x, at::randn({d}), at::randn({}), holds({5, 1}), target);
      expect_right(x, at::randn({3, 5, 1}), at::randn({1, 5, d}), holds({3, 1, d}), target);
      expect_right(x.transpose(0, 1), at::randn({5, 3, d}), at::randn({1, d}), holds({d}), target);
      expect_right(at::randn({d, 5, 3}).permute({2, 1, 0}), x, x, holds({3, 5, d}), target);
      expect_right(at::randn({3, 5, 2 * d}).slice(2, 0, 2 * d, 2), x, x, holds({1}), target);
    }
    const Tensor images = at::randn({2, 7, 3, 5}).contiguous(at::MemoryFormat::ChannelsLast);
    expect_right(images, at::randn({7, 1, 1}), images, holds({2, 1, 3, 5}), target);
    expect_right(at::randn({0, 4}), at::randn({4}), at::randn({}), holds({4}), target);
    expect_right(at::randn({}), at::randn({}), at::randn({}), holds({}), target);
    expect_right(at::randn({2, 1, 3, 1, 5}), at::randn({4, 1, 6, 1}), at::randn({5}),
                 holds({2, 1, 1, 1, 1}), target);
  });
}

// Blocks of several rows, a last block of one row, and operands that repeat over the outer dims.
TEST(Chain, ReadsSharedOperandsWhateverRowsAreLeftOver) {
  const at::NoGradGuard guard;
  at::manual_seed(7);
  const Tensor all = at::ones({1}, at::kBool);
  for_each_target([&](const std::string& target) {
    for (const auto& [rows, d] : {std::pair{17, 64}, {33, 64}, {197, 384}, {49, 64}, {25, 128}}) {
      const Tensor x = at::randn({3, rows, d}), gate = at::rand({3, 1, 1});
      expect_right(x, gate, at::randn({d}), all, target);
      expect_right(x, at::randn({d}), gate, at::rand({d}).gt(0.5), target);
    }
  });
  const auto below = [](int64_t n) { return at::randint(n, {1}).item<int64_t>(); };
  constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 16, 17, 33, 49, 64, 128, 197};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> sizes;
    for (int64_t left = 40000, dims = 1 + below(4); dims-- > 0; left /= sizes.back())
      sizes.push_back(std::min<int64_t>(kSizes[below(std::size(kSizes))], left));
    const auto operand = [&] {
      std::vector<int64_t> own = sizes;
      for (int64_t& size : own)
        if (below(3) == 0) size = 1;
      own.erase(own.begin(), own.begin() + below(static_cast<int64_t>(own.size())));
      return at::randn(own);
    };
    expect_right(at::randn(sizes), operand(), operand(), operand().gt(0),
                 fmt::format("{}", fmt::join(sizes, "x")));
  }
}

TEST(Chain, SameBitsForAnyNumberOfThreads) {
  const at::NoGradGuard guard;
  at::manual_seed(3);
  const Tensor a = at::randn({7, 33, 501}), b = at::randn({7, 1, 501}), c = at::randn({7, 33, 1});
  const Tensor mask = at::rand({501}).gt(0.5);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = chain_of({a, b, c, mask}, kCode);
  at::set_num_threads(2);
  const Tensor two = chain_of({a, b, c, mask}, kCode);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(two));
  // Nor does it matter where in a vector an element lies, or which model it belongs to.
  for (int64_t n = 0; n < 7; ++n)
    EXPECT_TRUE(chain_of({a.select(0, n).clone(), b.select(0, n), c.select(0, n), mask}, kCode)
                    .equal(one.select(0, n)));
}

TEST(Chain, NanStaysInItsModel) {
  const at::NoGradGuard guard;
  at::manual_seed(4);
  const Tensor a = at::randn({3, 11, 19}), b = at::randn({3, 1, 19}), c = at::randn({3, 1, 1});
  const Tensor mask = at::ones({1}, at::kBool);
  Tensor broken = a.clone();
  broken.select(0, 1).fill_(NAN);
  for_each_target([&](const std::string& target) {
    const Tensor right = chain_of({a, b, c, mask}, kCode);
    const Tensor y = chain_of({broken, b, c, mask}, kCode);
    EXPECT_TRUE(y.select(0, 1).isnan().all().item<bool>()) << target;
    for (const int64_t n : {0, 2}) EXPECT_TRUE(y.select(0, n).equal(right.select(0, n))) << target;
  });
}

TEST(Chain, WritesOverAnInput) {
  const at::NoGradGuard guard;
  at::manual_seed(5);
  const Tensor x = at::randn({3, 2049}), y = at::randn({3, 1});
  const Tensor expected = chain_of({x, y}, "tanh x0; add t0 x1; mul t1 x0");
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::chain", "out");
  Tensor place = x.clone();
  std::vector<c10::IValue> stack{std::vector<Tensor>{place, y},
                                 std::string("tanh x0; add t0 x1; mul t1 x0"), x.strides().vec(),
                                 place};
  op.callBoxed(&stack);
  EXPECT_TRUE(place.equal(expected));
}

TEST(Chains, TakeGradientsOfFunctions) {
  const at::NoGradGuard guard;
  at::manual_seed(6);
  using Backward = std::function<Tensor(const Tensor& g, const Tensor& x)>;
  const std::vector<std::pair<std::string, Backward>> all{
      {"threshold", [](auto& g, auto& x) { return at::threshold_backward(g, x, 0.25); }},
      {"tanh", [](auto& g, auto& x) { return at::tanh_backward(g, x); }},
      {"sigmoid", [](auto& g, auto& x) { return at::sigmoid_backward(g, x); }},
      {"gelu", [](auto& g, auto& x) { return at::gelu_backward(g, x); }},
      {"gelu tanh", [](auto& g, auto& x) { return at::gelu_backward(g, x, "tanh"); }},
      {"silu", [](auto& g, auto& x) { return at::silu_backward(g, x); }},
      {"elu", [](auto& g, auto& x) { return at::elu_backward(g, 1.5, 2, 0.5, false, x); }},
      {"leaky", [](auto& g, auto& x) { return at::leaky_relu_backward(g, x, 0.1, false); }},
      {"softplus", [](auto& g, auto& x) { return at::softplus_backward(g, x, 2, 3); }},
  };
  Tensor g = at::randn({2, 5, 7}), x = at::randn({2, 5, 7}) * 2;
  g[1][3][2] = x[1][4][6] = NAN;
  for (const auto& [name, backward] : all) {
    const auto twice = [&, &backward = backward](const std::vector<Tensor>& t) {
      return std::vector<Tensor>{backward(t[0] * 3, t[1])};
    };
    Program program = record({{"g", Role::input, g, true}, {"x", Role::input, x, true}}, twice, 2);
    run_passes(program, {{}, /*verify=*/true, false});
    ASSERT_EQ(program.nodes.size(), 1) << name << program.text();
    EXPECT_EQ(program.nodes[0].name(), "wide::chain") << name;
    const Tensor got = interpret(program, {g, x})[0], expected = twice({g, x})[0];
    const Tensor exact = twice({g.to(at::kDouble), x.to(at::kDouble)})[0];
    EXPECT_TRUE(at::allclose(got.to(at::kDouble), exact, 1e-5, 1e-6, /*equal_nan=*/true)) << name;
    EXPECT_TRUE(got.isnan().equal(expected.isnan())) << name;
  }
  // By the result, which a chain has no instruction for, it stays as it is.
  Program program = record(
      {{"g", Role::input, g, true}, {"x", Role::input, x, true}},
      [](const std::vector<Tensor>& t) {
        return std::vector<Tensor>{at::elu_backward(t[0], 1, 1, 1, true, t[1])};
      },
      2);
  run_passes(program);
  EXPECT_EQ(program.nodes.at(0).name(), "aten::elu_backward");
}

TEST(Chain, RefusesWhatIsNoChain) {
  const Tensor x = at::randn({3});
  const std::vector<std::string> bad{"",           "dance x0",      "tanh",       "tanh x1",
                                     "tanh t0",    "tanh x0 x0",    "add x0",     "elu x0 1 2",
                                     "add x0 nan", "mul x0 2three", "where x0 x0"};
  for (const std::string& code : bad) EXPECT_THROW(chain_of({x}, code), c10::Error) << code;
  EXPECT_THROW(chain_of({x.to(at::kDouble)}, "tanh x0"), c10::Error);
  EXPECT_THROW(chain({x, at::randn({3, 4})}, "add x0 x1", {1}), std::exception);
}

}  // namespace
}  // namespace wide::chain_test
