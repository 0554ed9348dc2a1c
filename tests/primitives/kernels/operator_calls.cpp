#include "tests/primitives/kernels/operator_calls.h"

#include <ATen/ATen.h>

#include "engine/train/optimizer/optimizer_operator.h"
#include "primitives/kernels/attention/blockwise_attention.h"
#include "primitives/kernels/convolution/direct_convolution.h"
#include "primitives/kernels/convolution/winograd.h"
#include "primitives/kernels/gemm/bf16_linear.h"
#include "primitives/kernels/gemm/packed_linear.h"
#include "primitives/kernels/pointwise/counter_draws.h"
#include "tests/primitives/kernels/called_operators.h"

namespace wide::testing {
namespace {

using at::IntArrayRef;
using at::IValue;
using at::ScalarType;
using at::Tensor;
using List = std::vector<int64_t>;

constexpr int64_t kN = 3;

/// Random numbers as `dtype` has them.
Tensor real(ScalarType dtype, IntArrayRef sizes) {
  return at::randn(sizes, at::kDouble).to(at::kFloat).to(dtype);
}

Tensor exact(const Tensor& t) { return t.to(at::kDouble); }

/// What `of(i)` computes for every model.
template <class Of>
Tensor each(const Of& of) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < kN; ++i) all.push_back(of(i));
  return at::stack(all);
}

// ------------------------------------------------------------------------------- attention

Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                bool causal) {
  Tensor scores = at::matmul(q, k.transpose(-1, -2)) * 0.5;
  if (mask.defined()) scores = scores.masked_fill(mask.to(at::kBool).logical_not(), -INFINITY);
  if (causal)
    scores = scores.masked_fill(at::ones({q.size(-2), k.size(-2)}, at::kBool).triu(1), -INFINITY);
  return at::matmul(at::softmax(scores, -1), v);
}

OperatorCall attention_call(ScalarType dtype, ScalarType other) {
  const Tensor q = real(dtype, {kN, 2, 2, 5, 3}), k = real(dtype, {kN, 2, 2, 7, 3}),
               v = real(dtype, {kN, 2, 2, 7, 5});
  Tensor mask = at::rand({kN, 2, 2, 5, 7}).gt(0.4);
  mask.select(-1, 0).fill_(true);
  mask = mask.to(other);
  return {{q, k, v, mask, false, 0.5, false}, attended(exact(q), exact(k), exact(v), mask, false)};
}

OperatorCall blockwise_call(ScalarType dtype, ScalarType) {
  const Tensor q = real(dtype, {kN, 2, 2, 7, 3}), k = real(dtype, {kN, 2, 2, 7, 3}),
               v = real(dtype, {kN, 2, 2, 7, 5});
  return {{q, k, v, true, 0.5}, attended(exact(q), exact(k), exact(v), {}, true)};
}

/// The gradient by q.
OperatorCall blockwise_backward_call(ScalarType dtype, ScalarType) {
  const Tensor q = real(at::kFloat, {kN, 2, 2, 7, 3}), k = real(at::kFloat, {kN, 2, 2, 7, 3}),
               v = real(at::kFloat, {kN, 2, 2, 7, 5}), g = real(at::kFloat, {kN, 2, 2, 7, 5});
  const at::AutoGradMode with_gradients(true);
  const Tensor of = exact(q).requires_grad_();
  const Tensor y = attended(of, exact(k), exact(v), {}, true);
  (y * exact(g)).sum().backward();
  const at::NoGradGuard guard;
  std::vector<IValue> made{q, k, v, true, 0.5};
  c10::Dispatcher::singleton().findSchemaOrThrow("wide::blockwise_attention", "").callBoxed(&made);
  std::vector<IValue> stack;
  for (const Tensor& t : {g, q, k, v, made[0].toTensor(), made[1].toTensor()})
    stack.emplace_back(t.to(dtype));
  stack.insert(stack.end(), {true, 0.5});
  return {stack, of.grad()};
}

// ---------------------------------------------------------------------------- convolutions

Tensor convolved(const Tensor& x, const Tensor& w, const Tensor& b, int64_t padding,
                 int64_t groups) {
  return each([&](int64_t i) {
    return at::conv2d(exact(x[i]), exact(w[i]), exact(b[i]), 1, padding, 1, groups);
  });
}

OperatorCall depthwise_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 5, 7, 6}), w = real(dtype, {kN, 5, 1, 3, 3}),
               b = real(dtype, {kN, 5});
  return {{x, w, b, List{1, 1}, List{1, 1}, List{1, 1}, List{7, 6}, IValue(), "none", "none"},
          convolved(x, w, b, 1, 5)};
}

OperatorCall direct_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 3, 7, 6}), b = real(dtype, {kN, 5});
  const Tensor w = real(at::kFloat, {kN, 5, 3, 3, 3}).to(dtype);
  return {{x, pack_filters(w, 1, false), b, 5, List{3, 3}, List{1, 1}, List{1, 1}, List{1, 1},
           List{7, 6}, 1, false, IValue(), "none", "none"},
          convolved(x, w, b, 1, 1)};
}

OperatorCall pointwise_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 3, 7, 6}), w = real(dtype, {kN, 5, 3, 1, 1}),
               b = real(dtype, {kN, 5});
  return {{x, w, b, IValue(), "none", "none"}, convolved(x, w, b, 0, 1)};
}

OperatorCall winograd_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 8, 7, 6}), b = real(dtype, {kN, 8});
  const Tensor w = real(dtype, {kN, 8, 8, 3, 3});
  const Tensor filters = winograd_filters(w.to(at::kFloat), 2).to(dtype);
  return {{x, filters, b, 8, List{1, 1}, 3, 2, IValue(), "none", "none"}, convolved(x, w, b, 1, 1)};
}

// -------------------------------------------------------------------------------- products

OperatorCall matmul_call(ScalarType dtype, ScalarType) {
  const Tensor a = real(dtype, {kN, 7, 5}), b = real(dtype, {kN, 5, 11}),
               bias = real(dtype, {kN, 1, 11});
  return {{a, b, false, false, bias, "none"}, at::baddbmm(exact(bias), exact(a), exact(b))};
}

OperatorCall pack_panels_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(at::kFloat, {kN, 7, 5}), w = real(dtype, {kN, 5, 11}),
               bias = real(dtype, {kN, 11});
  return {{w, bias},
          at::baddbmm(exact(bias).unsqueeze(1), exact(x), exact(w)),
          [x](const Tensor& panels) { return packed_linear(x, panels, 11); }};
}

OperatorCall packed_linear_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 7, 5}), w = real(at::kFloat, {kN, 5, 11}),
               bias = real(at::kFloat, {kN, 11});
  return {{x, pack_panels(w, bias).to(dtype), 11, IValue(), "none"},
          at::baddbmm(exact(bias).unsqueeze(1), exact(x), exact(w))};
}

OperatorCall bf16_linear_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 7, 5}), w = real(dtype, {kN, 5, 16}),
               bias = real(dtype, {kN, 16});
  return {{x, pack_pairs(w), bias, "none"},
          at::baddbmm(exact(bias).unsqueeze(1), exact(x), exact(w))};
}

OperatorCall lookup_call(ScalarType dtype, ScalarType other) {
  const Tensor tables = real(dtype, {kN, 11, 5}), ids = at::randint(11, {kN, 2, 3}, at::kLong);
  return {{tables, ids.to(other)},
          each([&](int64_t i) { return at::embedding(exact(tables[i]), ids[i]); })};
}

// ----------------------------------------------------------------------------------- norms

OperatorCall layer_norm_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 5, 7}), w = real(dtype, {kN, 7}), b = real(dtype, {kN, 7});
  return {{x, w, b, 7, 1e-5, false, "none", false}, each([&](int64_t i) {
            return at::layer_norm(exact(x[i]), {7}, exact(w[i]), exact(b[i]), 1e-5);
          })};
}

OperatorCall group_norm_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 6, 5}), w = real(dtype, {kN, 6}), b = real(dtype, {kN, 6});
  return {{x, w, b, 3, 1e-5, "none", false}, each([&](int64_t i) {
            return at::group_norm(exact(x[i]), 3, exact(w[i]), exact(b[i]), 1e-5);
          })};
}

OperatorCall batch_norm_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 4, 5, 7}), w = real(dtype, {kN, 5}), b = real(dtype, {kN, 5}),
               mean = real(dtype, {kN, 5}), var = real(dtype, {kN, 5}).abs();
  return {{x, w, b, mean, var, 0.1, 1e-5, "none", false}, each([&](int64_t i) {
            return at::batch_norm(exact(x[i]), exact(w[i]), exact(b[i]), {}, {}, true, 0.1, 1e-5,
                                  false);
          })};
}

OperatorCall scale_shift_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 5, 7}), scale = real(dtype, {kN, 5}),
               shift = real(dtype, {kN, 5});
  const auto wide = [](const Tensor& t) { return exact(t).view({kN, 1, 5, 1}); };
  return {{x, scale, shift, "none", false}, exact(x) * wide(scale) + wide(shift)};
}

OperatorCall reduce_rows_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 37});
  return {{x, "logsumexp", 1, false}, exact(x).logsumexp({2})};
}

OperatorCall softmax_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 37});
  return {{x, true}, exact(x).log_softmax(-1)};
}

OperatorCall softmax_backward_call(ScalarType dtype, ScalarType) {
  const Tensor g = real(dtype, {kN, 5, 37}),
               y = real(at::kFloat, {kN, 5, 37}).softmax(-1).to(dtype);
  const Tensor product = exact(g) * exact(y);
  return {{g, y, false}, product - exact(y) * product.sum(-1, true)};
}

// ------------------------------------------------------------------------------- pointwise

OperatorCall chain_call(ScalarType dtype, ScalarType other) {
  const Tensor x = real(dtype, {kN, 5, 7}), y = real(dtype, {kN, 5, 7});
  const Tensor mask = at::rand({kN, 5, 7}).gt(0.4).to(other);
  return {{std::vector<Tensor>{mask, x, y}, "where x0 x1 x2", List{35, 7, 1}},
          at::where(mask.to(at::kBool), exact(x), exact(y))};
}

struct Draw {
  Tensor seed, step;
  explicit Draw(ScalarType other)
      : seed(at::tensor({5, 7, 11}, at::kLong).to(other)),
        step(at::full({kN}, 2, seed.options())) {}
};

/// The same numbers whatever the dtype; that they are drawn as they shall be is tested elsewhere.
OperatorCall counter_dropout_call(ScalarType dtype, ScalarType other) {
  const Draw of(other), known(at::kLong);
  const Tensor x = real(dtype, {kN, 5, 7}), p = at::full({kN}, 0.25, x.options());
  return {{x, of.seed, of.step, p, 0.5, 3, 2},
          wide::counter_dropout(exact(x), known.seed, known.step, exact(p), 0.5, 3, 2)};
}

OperatorCall counter_uniform_call(ScalarType dtype, ScalarType other) {
  const Draw of(other), known(at::kLong);
  return {{of.seed, of.step, 3, List{5, 7}, dtype},
          wide::counter_uniform(known.seed, known.step, 3, {5, 7}, at::kDouble)};
}

OperatorCall counter_normal_call(ScalarType dtype, ScalarType other) {
  const Draw of(other), known(at::kLong);
  return {{of.seed, of.step, 3, List{5, 7}, dtype},
          wide::counter_normal(known.seed, known.step, 3, {5, 7}, at::kDouble)};
}

/// What is left is doubled; put back where it was dropped it is x again.
OperatorCall dropout_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 7});
  return {{x, 0.5}, exact(x), [x](const Tensor& y) { return at::where(y.eq(0), x, y * 0.5); }};
}

OperatorCall prelu_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 5, 7}), slopes = real(dtype, {kN, 5});
  return {{x, slopes}, each([&](int64_t i) { return at::prelu(exact(x[i]), exact(slopes[i])); })};
}

// ----------------------------------------------------------------------------------- pools

OperatorCall adaptive_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 7, 6});
  return {{x, List{3, 2}}, at::adaptive_avg_pool2d(exact(x), {3, 2})};
}

OperatorCall max_pool_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 7, 6});
  return {{x, List{3, 3}, List{2, 2}, List{1, 1}, List{1, 1}, false},
          at::max_pool2d(exact(x), 3, 2, 1)};
}

OperatorCall average_pool_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 7, 6});
  return {{x, List{3, 3}, List{2, 2}, List{1, 1}}, at::avg_pool2d(exact(x), 3, 2, 1)};
}

OperatorCall max_pool_places_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 5, 7, 6});
  return {{x, List{3, 3}, List{2, 2}, List{1, 1}, false}, at::max_pool2d(exact(x), 3, 2, 1)};
}

OperatorCall max_pool_backward_call(ScalarType dtype, ScalarType other) {
  const Tensor x = real(at::kFloat, {kN, 5, 7, 6});
  const auto [y, places] = wide::max_pool_places(x, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}, false);
  const Tensor g = real(dtype, y.sizes());
  const auto [known, indices] = at::max_pool2d_with_indices(exact(x), 3, 2, 1);
  return {{g, places.to(other), x.sizes().vec(), List{3, 3}, List{2, 2}, List{1, 1}, false},
          at::max_pool2d_with_indices_backward(exact(g), exact(x), 3, 2, 1, 1, false, indices)};
}

// --------------------------------------------------------------------- layers and optimisers

OperatorCall recurrent_call(ScalarType dtype, ScalarType) {
  const Tensor x = real(dtype, {kN, 2, 4, 5}), h0 = real(dtype, {kN, 2, 7}),
               input = real(at::kFloat, {kN, 5, 7}), hidden = real(at::kFloat, {kN, 7, 7}) * 0.3;
  Tensor h = exact(h0);
  std::vector<Tensor> states;
  for (int64_t t = 0; t < 4; ++t) {
    h = (at::bmm(exact(x).select(2, t), exact(input)) + at::bmm(h, exact(hidden))).tanh();
    states.push_back(h);
  }
  return {
      {x, pack_panels(input, std::nullopt).to(dtype), pack_panels(hidden, std::nullopt).to(dtype),
       IValue(), h0, IValue(), "rnn_tanh", false, false},
      at::stack(states, 2)};
}

/// Without momentum: p - lr g.
OperatorCall step_call(ScalarType dtype, ScalarType) {
  const Tensor p = real(dtype, {kN, 5, 7}), g = real(dtype, {kN, 5, 7});
  const Tensor rates = at::tensor({0.1, 0.2, 0.3}, at::kDouble);
  const Tensor hyper = at::cat({rates.unsqueeze(1), at::zeros({kN, 4}, at::kDouble)}, 1);
  return {{p, g, hyper, 1, "sgd"}, exact(p) - rates.view({kN, 1, 1}) * exact(g)};
}

}  // namespace

std::vector<CallsOf> operator_calls() {
  return {{"wide::attention", "", attention_call},
          {"wide::blockwise_attention", "", blockwise_call},
          {"wide::blockwise_attention_backward", "", blockwise_backward_call},
          {"wide::depthwise_convolution", "", depthwise_call},
          {"wide::direct_convolution", "", direct_call},
          {"wide::pointwise_convolution", "", pointwise_call},
          {"wide::winograd_convolution", "", winograd_call},
          {"wide::matmul", "", matmul_call},
          {"wide::pack_panels", "", pack_panels_call},
          {"wide::packed_linear", "", packed_linear_call},
          {"wide::bf16_linear", "", bf16_linear_call},
          {"wide::lookup", "", lookup_call},
          {"wide::layer_norm", "", layer_norm_call},
          {"wide::group_norm", "", group_norm_call},
          {"wide::batch_norm", "", batch_norm_call},
          {"wide::scale_shift", "", scale_shift_call},
          {"wide::reduce_rows", "", reduce_rows_call},
          {"wide::softmax", "", softmax_call},
          {"wide::softmax_backward", "", softmax_backward_call},
          {"wide::chain", "", chain_call},
          {"wide::counter_dropout", "", counter_dropout_call},
          {"wide::counter_uniform", "", counter_uniform_call},
          {"wide::counter_normal", "", counter_normal_call},
          {"wide::dropout", "", dropout_call},
          {"wide::prelu", "", prelu_call},
          {"wide::adaptive_average_pool", "", adaptive_call},
          {"wide::max_pool", "", max_pool_call},
          {"wide::average_pool", "", average_pool_call},
          {"wide::max_pool_places", "", max_pool_places_call},
          {"wide::max_pool_backward", "", max_pool_backward_call},
          {"wide::recurrent_layer", "", recurrent_call},
          {"wide::optimizer_step", "none", step_call}};
}

}  // namespace wide::testing
