#include "primitives/kernels/recurrent/recurrent.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "primitives/kernels/recurrent/recurrent_cells.h"
#include "tests/primitives/kernels/each_target.h"

namespace wide::recurrent_test {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Case {
  std::string cell;
  int64_t n, batch, time, in, width;
  bool reverse = false, time_major = false, biases = true, states = true;
};

/// Distinct parameters, inputs and first states for every model.
struct Subject {
  Tensor x, h0, c0, w_ih, w_hh, b_ih, b_hh;

  explicit Subject(const Case& c) {
    at::manual_seed(7);
    const int64_t gates = c.cell == "lstm" ? 4 : c.cell == "gru" ? 3 : 1;
    const double scale = 1.0 / std::sqrt(double(c.width));
    x = at::randn({c.n, c.batch, c.time, c.in});
    h0 = at::randn({c.n, c.batch, c.width}) * (c.states ? 0.5 : 0.0);
    c0 = at::randn({c.n, c.batch, c.width}) * (c.states ? 0.5 : 0.0);
    w_ih = at::randn({c.n, gates * c.width, c.in}) * scale;
    w_hh = at::randn({c.n, gates * c.width, c.width}) * scale;
    b_ih = at::randn({c.n, gates * c.width});
    b_hh = at::randn({c.n, gates * c.width});
  }
};

/// The last states as `[S, B, H]`.
struct Result {
  Tensor y, states;
};

Result operator_result(const Case& c, const Subject& s) {
  const int64_t h = c.width;
  const bool gru = c.cell == "gru";
  const Tensor order =
      gru ? at::cat({s.w_ih.narrow(1, 2 * h, h), s.w_ih.narrow(1, 0, 2 * h)}, 1) : s.w_ih;
  Tensor bias = s.b_ih + s.b_hh;
  if (gru)
    bias = at::cat(
        {s.b_ih.narrow(1, 2 * h, h), bias.narrow(1, 0, 2 * h), s.b_hh.narrow(1, 2 * h, h)}, 1);
  // Time-major as a view: the operator takes the strides as they are.
  RecurrentLayer layer{c.time_major ? s.x.transpose(1, 2) : s.x,
                       order.transpose(1, 2).contiguous(),
                       s.w_hh.transpose(1, 2).contiguous(),
                       std::nullopt,
                       s.h0,
                       std::nullopt,
                       c.cell,
                       c.reverse,
                       c.time_major};
  if (c.biases) layer.bias = bias;
  if (c.cell == "lstm") layer.c0 = s.c0;
  const auto [y, states] = recurrent_layer(layer);
  return {c.time_major ? y.transpose(1, 2) : y, states};
}

/// ATen in float64 for one model, reversed by reversing the sequence.
Result one_model(const Case& c, const Subject& s, int64_t i) {
  const auto raised = [i](const Tensor& t) { return t.select(0, i).to(at::kDouble); };
  const Tensor x = c.reverse ? raised(s.x).flip(1) : raised(s.x);
  const Tensor h = raised(s.h0).unsqueeze(0);
  Tensors p{raised(s.w_ih), raised(s.w_hh)};
  if (c.biases) p.insert(p.end(), {raised(s.b_ih), raised(s.b_hh)});
  Tensor y, hn, cn;
  if (c.cell == "lstm") {
    std::tie(y, hn, cn) =
        at::lstm(x, {h, raised(s.c0).unsqueeze(0)}, p, c.biases, 1, 0.0, false, false, true);
    hn = at::cat({hn, cn});
  } else if (c.cell == "gru") {
    std::tie(y, hn) = at::gru(x, h, p, c.biases, 1, 0.0, false, false, true);
  } else if (c.cell == "rnn_tanh") {
    std::tie(y, hn) = at::rnn_tanh(x, h, p, c.biases, 1, 0.0, false, false, true);
  } else {
    std::tie(y, hn) = at::rnn_relu(x, h, p, c.biases, 1, 0.0, false, false, true);
  }
  return {c.reverse ? y.flip(1) : y, hn};
}

double difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const Tensor off = (a.to(at::kDouble) - b.to(at::kDouble)).abs() / (1.0 + b.abs());
  return off.max().item<double>();
}

void expect_equal(const Case& c) {
  SCOPED_TRACE(c.cell + " N" + std::to_string(c.n) + " B" + std::to_string(c.batch) + " T" +
               std::to_string(c.time) + " I" + std::to_string(c.in) + " H" +
               std::to_string(c.width) + (c.reverse ? " reverse" : "") +
               (c.time_major ? " time_major" : "") + (c.biases ? "" : " without biases") +
               (c.states ? "" : " from zero"));
  const Subject s(c);
  const Result got = operator_result(c, s);
  for (int64_t i = 0; i < c.n; ++i) {
    const Result expected = one_model(c, s, i);
    EXPECT_LT(difference(got.y.select(0, i), expected.y), 1e-5);
    EXPECT_LT(difference(got.states.select(0, i), expected.states), 1e-5);
  }
}

const std::vector<std::string> kCells{"lstm", "gru", "rnn_tanh", "rnn_relu"};

TEST(Recurrent, EqualsSeparateModelsInFloat64AtOddSizes) {
  for (const std::string& cell : kCells)
    for (int64_t n : {1, 3})
      for (int64_t batch : {1, 3, 9})
        for (int64_t time : {1, 5})
          for (int64_t width : {5, 17, 128}) expect_equal({cell, n, batch, time, 7, width});
}

TEST(Recurrent, ReverseTimeMajorNoBiasesZeroStates) {
  for (const std::string& cell : kCells)
    for (int flags = 0; flags < 16; ++flags)
      for (int64_t batch : {1, 3, 8})
        expect_equal({cell, 2, batch, 5, 7, 17, (flags & 1) != 0, (flags & 2) != 0,
                      (flags & 4) != 0, (flags & 8) != 0});
}

TEST(Recurrent, LongSequencesOfSmallBatchesCrossChunks) {
  for (const std::string& cell : kCells)
    for (bool reverse : {false, true})
      for (int64_t batch : {1, 3, 5}) {
        expect_equal({cell, 2, batch, 37, 7, 17, reverse, false});
        expect_equal({cell, 2, batch, 37, 7, 17, reverse, true});
      }
}

TEST(Recurrent, TakesStridedAndExpandedInputs) {
  for (const std::string& cell : kCells) {
    const Case c{cell, 3, 3, 5, 7, 17};
    Subject s(c);
    const Tensor wide = at::randn({3, 3, 5, 14});
    s.x = wide.narrow(3, 2, 7);
    const Result strided = operator_result(c, s);
    s.x = s.x.contiguous();
    EXPECT_TRUE(at::equal(strided.y, operator_result(c, s).y)) << cell;
    s.x = s.x.narrow(0, 0, 1).expand({3, 3, 5, 7});
    s.h0 = s.h0.narrow(0, 0, 1).expand({3, 3, 17});
    const Result shared = operator_result(c, s);
    EXPECT_LT(difference(shared.y.select(0, 2), one_model(c, s, 2).y), 1e-5) << cell;
    s.x = s.x.transpose(2, 3).contiguous().transpose(2, 3);  // last axis not contiguous
    EXPECT_TRUE(at::equal(shared.y, operator_result(c, s).y)) << cell;
  }
}

TEST(Recurrent, NanStaysInItsModelAndReachesAllLaterSteps) {
  for (const std::string& cell : kCells) {
    const Case c{cell, 3, 2, 5, 7, 17};
    Subject s(c);
    const Result clean = operator_result(c, s);
    s.x.select(0, 1).select(1, 2).fill_(std::numeric_limits<float>::quiet_NaN());
    const Result got = operator_result(c, s);
    for (int64_t i : {0, 2}) {
      EXPECT_TRUE(at::equal(got.y.select(0, i), clean.y.select(0, i))) << cell;
      EXPECT_TRUE(at::equal(got.states.select(0, i), clean.states.select(0, i))) << cell;
    }
    EXPECT_TRUE(
        at::equal(got.y.select(0, 1).narrow(1, 0, 2), clean.y.select(0, 1).narrow(1, 0, 2)));
    EXPECT_TRUE(got.y.select(0, 1).narrow(1, 2, 3).isnan().all().item<bool>()) << cell;
    EXPECT_TRUE(got.states.select(0, 1).isnan().all().item<bool>()) << cell;
    // A weight that is not a number reaches every state of its model.
    Subject w(c);
    w.w_hh.select(0, 0).fill_(std::numeric_limits<float>::quiet_NaN());
    const Result weight = operator_result(c, w);
    EXPECT_TRUE(weight.y.select(0, 0).isnan().all().item<bool>()) << cell;
    EXPECT_FALSE(weight.y.narrow(0, 1, 2).isnan().any().item<bool>()) << cell;
  }
}

TEST(Recurrent, RefusesGradientsAndUnfitArguments) {
  const Case c{"lstm", 2, 3, 4, 7, 5};
  Subject s(c);
  Subject learned(c);
  learned.x.requires_grad_();
  EXPECT_THROW(operator_result(c, learned).y.sum().backward(), c10::Error);
  s.h0 = s.h0.narrow(1, 0, 2);
  EXPECT_THROW(operator_result(c, s), c10::Error);
}

TEST(Recurrent, EqualsSeparateModelsUnderEveryInstructionSet) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const std::string& cell : kCells)
      for (const int64_t width : {1, 19, 33}) expect_equal({cell, 2, 3, 4, 7, width});
  });
}

/// What the LSTM cell makes of one unit each: c sigmoid(f) + sigmoid(i) tanh(g).
struct LstmUnits {
  std::vector<float> i, f, g, c;

  std::vector<float> next() const {
    const auto width = static_cast<int64_t>(i.size());
    std::vector<float> gates, h(i.size()), y(i.size()), states = c;
    for (const auto* gate : {&i, &f, &g, &i}) gates.insert(gates.end(), gate->begin(), gate->end());
    recurrent_cells::lstm(
        {gates.data(), 4 * width, h.data(), states.data(), y.data(), width, 1, width});
    return states;
  }
};

std::vector<float> tanh_cell(const std::vector<float>& x) {
  const auto width = static_cast<int64_t>(x.size());
  std::vector<float> h(x.size()), y(x.size());
  recurrent_cells::rnn_tanh({x.data(), width, h.data(), nullptr, y.data(), width, 1, width});
  EXPECT_EQ(h.size(), y.size());
  return y;
}

/// Sigmoids: with g = 0 and c = 1 the new c is that of f.
std::vector<float> sigmoid_cell(const std::vector<float>& x) {
  const std::vector<float> zeros(x.size(), 0), ones(x.size(), 1);
  return LstmUnits{zeros, x, zeros, ones}.next();
}

/// sigmoid(x) tanh(g): with c = 0.
std::vector<float> gated_cell(const std::vector<float>& x, const std::vector<float>& g) {
  const std::vector<float> zeros(x.size(), 0);
  return LstmUnits{x, zeros, g, zeros}.next();
}

TEST(Recurrent, SigmoidAndTanhAreWithinTheirBoundsUnderEveryInstructionSet) {
  std::vector<float> x;
  for (int64_t i = -200000; i <= 200000; ++i) x.push_back(static_cast<float>(double(i) / 2000.0));
  for (float small = 1e-30F; small < 1.0F; small *= 1.01F) {
    x.push_back(small);
    x.push_back(-small);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto relative = [](double got, double expected) {
    return std::abs(got - expected) / std::max(std::abs(expected), 1e-30);
  };
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    double sigmoid_error = 0, tanh_error = 0, gated_error = 0;
    const std::vector<float> g = sigmoid_cell(x), t = tanh_cell(x),
                             both = gated_cell(x, std::vector<float>(x.size(), 0.7F));
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], e = 1.0 / (1.0 + std::exp(-v));
      if (std::abs(v) <= 87.0) sigmoid_error = std::max(sigmoid_error, relative(g[i], e));
      tanh_error = std::max(tanh_error, relative(t[i], std::tanh(v)));
      gated_error = std::max(gated_error, std::abs(both[i] - e * std::tanh(double(0.7F))));
      ASSERT_NEAR(g[i], e, 2e-7) << x[i];
    }
    EXPECT_LT(sigmoid_error, 2e-7);
    EXPECT_LT(tanh_error, 2e-7);
    EXPECT_LT(gated_error, 2e-7);
    EXPECT_EQ(tanh_cell({kInfinity, -kInfinity, 0}), std::vector<float>({1, -1, 0}));
    EXPECT_EQ(sigmoid_cell({kInfinity})[0], 1.0F);
    EXPECT_NEAR(sigmoid_cell({-kInfinity})[0], 0.0F, 1e-37);
    EXPECT_TRUE(std::isnan(tanh_cell({1, nan, 2})[1]));
    EXPECT_TRUE(std::isnan(sigmoid_cell({nan})[0]));
    EXPECT_TRUE(std::isnan(gated_cell({nan}, {1})[0]));
    EXPECT_TRUE(std::isnan(gated_cell({1}, {nan})[0]));
  });
}

}  // namespace
}  // namespace wide::recurrent_test
