// What a kernel does in a plan of the operators behind it: a sum, an activation, a pooling.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/check/check.h"
#include "engine/compile.h"

namespace wide::kernel_epilogue_test {
namespace {

struct Case {
  const char* name;
  std::vector<const char*> said;  // in the plan's text
  const char* absent;             // in the plan's text, or null
  std::function<Tensor(const Tensors&)> forward;
};

/// `layer(x)` of the tensors w, b, x and y, [6, 5], [5] or [6, 5, 1, 1], and two inputs alike.
Tensor linear(const Tensors& t) { return at::linear(t[2], t[0], t[1]); }

const std::vector<Case>& linear_cases() {
  static const std::vector<Case> all{
      {"elu", {"with elu 1 1 1"}, "chain", [](auto& t) { return at::elu(linear(t)); }},
      {"leaky_relu",
       {"with leaky_relu 0.3"},
       "aten::leaky_relu",
       [](auto& t) { return at::leaky_relu(linear(t), 0.3); }},
      {"hardtanh",
       {"with hardtanh -1 0.5"},
       "aten::hardtanh",
       [](auto& t) { return at::hardtanh(linear(t), -1, 0.5); }},
      {"mish", {"with mish"}, "chain", [](auto& t) { return at::mish(linear(t)); }},
      {"sum", {"with a sum f32"}, "aten::add", [](auto& t) { return linear(t) + t[3]; }},
      {"sum, other order",
       {"with a sum f32"},
       "aten::add",
       [](auto& t) { return t[3] + linear(t); }},
      {"sum and activation",
       {"with a sum and silu"},
       "aten::add",
       [](auto& t) { return at::silu(t[3] + linear(t)); }},
      {"activation before the sum",
       {"with silu"},
       "with a sum",
       [](auto& t) { return t[3] + at::silu(linear(t)); }},
      {"of what a view shows",
       {"with a sum and tanh"},
       "aten::add",
       [](auto& t) {
         const Tensor y = linear(t);
         return at::tanh(y.view({-1}) + t[3].view({-1})).view(y.sizes());
       }},
      {"of what is computed before",
       {"with a sum"},
       nullptr,
       [](auto& t) {
         const Tensor before = at::cumsum(t[3], 0);
         return linear(t) + before;
       }},
      {"of what is computed after",
       {"packed_linear.out f32"},
       "with a sum",
       [](auto& t) {
         const Tensor y = linear(t);
         return y + at::cumsum(t[3], 0).clone();
       }},
      {"of a row for all",
       {"packed_linear"},
       "with a sum",
       [](auto& t) { return linear(t) + t[3].select(0, 0); }},
      {"twice as much",
       {"packed_linear"},
       "with a sum",
       [](auto& t) { return at::add(linear(t), t[3], 2); }},
      {"with itself",
       {"packed_linear"},
       "with a sum",
       [](auto& t) {
         const Tensor y = linear(t);
         return y + y;
       }},
      {"read twice",
       {"packed_linear"},
       "with ",
       [](auto& t) {
         const Tensor y = linear(t);
         return at::cumsum(at::silu(y), 0) + y;
       }},
      {"of two layers",
       {"with a sum and relu"},
       "aten::add",
       [](auto& t) {
         const Tensor y = linear(t), z = at::linear(t[3], t[0], t[1]);
         return at::relu(y + z);
       }},
  };
  return all;
}

/// The wide program of a case beside float64, and with NaN in one model.
void check(const Case& c, const std::vector<TensorSpec>& tensors, const CompileOptions& options) {
  Network net;
  net.name = c.name;
  net.tensors = tensors;
  net.forward = [&c](const Tensors& t) { return Tensors{c.forward(t)}; };
  net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
  Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 1);
  auto model = compile(net, ensemble, options);
  const std::string plan = model->plan_text();
  for (const char* words : c.said)
    EXPECT_NE(plan.find(words), std::string::npos) << c.name << "\n" << plan;
  EXPECT_TRUE(c.absent == nullptr || plan.find(c.absent) == std::string::npos) << c.name << "\n"
                                                                               << plan;
  const Program single = record_single(net, ensemble);
  EXPECT_LT(max_relative_error(as_function(*model, net)(ensemble), in_double(single, ensemble)),
            1e-5)
      << c.name;
  const Tensors inputs(ensemble.tensors.begin() + 2, ensemble.tensors.end());
  const Tensor clean = model->run(inputs)[0].clone();
  for (size_t k = 0; k < inputs.size(); ++k) {
    Tensors broken = inputs;
    broken[k] = inputs[k].clone();
    broken[k][1].fill_(NAN);
    const Tensor y = model->run(broken)[0];
    EXPECT_TRUE(k > 0 || y[1].isnan().all().item<bool>()) << c.name;
    EXPECT_TRUE(y[0].equal(clean[0]) && y[2].equal(clean[2])) << c.name;
  }
}

TEST(Epilogue, OfALinearLayer) {
  const at::NoGradGuard no_grad;
  CompileOptions options;
  options.widen.force["linear"] = "packed";
  for (const Case& c : linear_cases())
    check(c,
          {{"w", Role::parameter, {5, 5}},
           {"b", Role::parameter, {5}},
           {"x", Role::input, {7, 5}},
           {"y", Role::input, {7, 5}}},
          options);
}

/// Of 3 x 3 taps and padding 1.
Tensor layer(const Tensors& t) { return at::conv2d(t[2], t[0], t[1], 1, 1); }

/// Rows of tiles whole (7 columns) and cut over several chunks (40).
void check_images(const std::vector<Case>& cases, int64_t height) {
  for (const char* strategy : {"direct", "winograd"}) {
    CompileOptions options;
    options.widen.force["conv2d"] = strategy;
    for (const Case& c : cases)
      for (const int64_t side : {7, 40})
        check(c,
              {{"w", Role::parameter, {9, 9, 3, 3}},
               {"b", Role::parameter, {9}},
               {"x", Role::input, {2, 9, height, side}},
               {"y", Role::input, {2, 9, height, side}}},
              options);
  }
}

TEST(Epilogue, OfAConvolution) {
  const at::NoGradGuard no_grad;
  const std::vector<Case> cases{
      {"silu", {"with silu"}, "chain", [](auto& t) { return at::silu(layer(t)); }},
      {"hardtanh",
       {"with hardtanh 0 6"},
       "aten::hardtanh",
       [](auto& t) { return at::hardtanh(layer(t), 0, 6); }},
      {"sum", {"with a sum f32"}, "aten::add", [](auto& t) { return t[3] + layer(t); }},
      {"sum and relu",
       {"with a sum and relu"},
       "aten::relu",
       [](auto& t) { return at::relu(t[3] + layer(t)); }},
      {"sum and elu", {"with a sum and elu 1 1 1"}, "aten::elu", [](auto& t) {
         return at::elu(layer(t) + t[3]);
       }}};
  check_images(cases, 5);
}

/// What is pooled is made by no step of its own, and never lies in the arena.
TEST(Epilogue, OfAConvolutionThatIsPooled) {
  const at::NoGradGuard no_grad;
  const std::vector<Case> cases{
      {"relu",
       {"with relu and max_pool 2 2"},
       "max_pool.out",
       [](auto& t) { return at::max_pool2d(at::relu(layer(t)), 2); }},
      {"mish",
       {"with mish and average_pool 2 2"},
       "average_pool.out",
       [](auto& t) { return at::avg_pool2d(at::mish(layer(t)), 2); }},
      {"tanh behind it",
       {"with max_pool 2 2", "then tanh"},
       "chain",
       [](auto& t) { return at::tanh(at::max_pool2d(layer(t), 2)); }},
      {"gelu on both sides",
       {"with gelu and max_pool 2 2", "gelu x0"},
       "then gelu",
       [](auto& t) { return at::gelu(at::max_pool2d(at::gelu(layer(t)), 2)); }},
      {"sum",
       {"with a sum and sigmoid and max_pool 2 2"},
       "max_pool.out",
       [](auto& t) { return at::max_pool2d(at::sigmoid(layer(t) + t[3]), 2); }},
      {"sum of two",
       {"with a sum and max_pool"},
       "max_pool.out",
       [](auto& t) {
         return at::max_pool2d(layer(t) + layer({t[0], t[1], t[3]}), 2) * 3;
       }},
      {"read twice",
       {"max_pool.out"},
       "and max_pool",
       [](auto& t) {
         const Tensor y = at::relu(layer(t));
         return at::cat({at::max_pool2d(y, 2).flatten(), at::cumsum(y, 0).flatten()});
       }},
      {"of a part",
       {"max_pool.out"},
       "and max_pool",
       [](auto& t) { return at::max_pool2d(at::relu(layer(t)).narrow(1, 0, 4), 2); }},
      {"planes seen otherwise",
       {"max_pool.out"},
       "and max_pool",
       [](auto& t) { return at::max_pool2d(at::relu(layer(t)).flatten(2).unsqueeze(1), 2); }},
      {"of what comes out", {"max_pool.out"}, "and max_pool", [](auto& t) {
         const Tensor y = at::relu(layer(t));
         return at::cat({y.flatten(), at::max_pool2d(y, 2).flatten()});
       }}};
  check_images(cases, 6);
}

TEST(Epilogue, OfAConvolutionAlongALineThatIsPooled) {
  const at::NoGradGuard no_grad;
  const Case one{"line", {"with elu 1 1 1 and max_pool 1 3 1 2"}, "max_pool.out", [](auto& t) {
                   return at::max_pool1d(at::elu(at::conv1d(t[2], t[0], t[1])), 3, 2);
                 }};
  CompileOptions options;
  options.widen.force["conv1d"] = "direct";
  check(one,
        {{"w", Role::parameter, {7, 4, 5}},
         {"b", Role::parameter, {7}},
         {"x", Role::input, {3, 4, 41}}},
        options);
}

/// Rows in several blocks of the first-level cache, the last of them smaller; one and 3 rows.
TEST(Epilogue, OfALayerNorm) {
  const at::NoGradGuard no_grad;
  for (const int64_t d : {5, 67})
    for (const int64_t rows : {1, 3, 201}) {
      const auto layer = [d](const Tensors& t) { return at::layer_norm(t[2], {d}, t[0], t[1]); };
      const std::vector<Case> cases{
          {"relu", {"with relu"}, "clamp_min", [&](auto& t) { return at::relu(layer(t)); }},
          {"gelu", {"with gelu"}, "chain", [&](auto& t) { return at::gelu(layer(t)); }},
          {"elu", {"with elu 1 1 1"}, "chain", [&](auto& t) { return at::elu(layer(t)); }}};
      for (const Case& c : cases)
        check(c,
              {{"w", Role::parameter, {d}},
               {"b", Role::parameter, {d}},
               {"x", Role::input, {rows, d}}},
              {});
    }
}

}  // namespace
}  // namespace wide::kernel_epilogue_test
