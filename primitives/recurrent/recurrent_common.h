#pragma once
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/recurrent/recurrent.h"

namespace wide {

/// Shared by lstm, gru and rnn: claims, the loops over layers, directions and time, and the single
/// model. Each cell type adds its gates and its step.
struct RecurrentConfig {
  std::string cell;  // "lstm", "gru", "rnn_tanh", "rnn_relu"
  bool biases = true, bidirectional = false, batch_first = true;
  int64_t layers = 1;

  std::string text() const {
    return fmt::format("{} layers={} bidirectional={} batch_first={} biases={}", cell, layers,
                       bidirectional ? 1 : 0, batch_first ? 1 : 0, biases ? 1 : 0);
  }
  int64_t directions() const { return bidirectional ? 2 : 1; }
  size_t states() const { return cell == "lstm" ? 2 : 1; }
  size_t per_direction() const { return biases ? 4 : 2; }
};

namespace recurrent {

/// x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first. Not claimed:
/// packed sequences (the third argument is a tensor), projections (more weights).
inline std::optional<Claimed> claim(const CallView& call, const std::string& cell) {
  RecurrentConfig c;
  c.cell = cell;
  if (call.size() != 9 || !call.is_tensor(0) || call.is_tensor(2)) return std::nullopt;
  if (call.value(0).sizes.size() != 3) return std::nullopt;
  if (call.number(5, 0.0) > 0 && call.flag(6)) return std::nullopt;  // dropout between layers
  c.biases = call.flag(3);
  c.layers = static_cast<int64_t>(call.number(4, 1));
  c.bidirectional = call.flag(7);
  c.batch_first = call.flag(8);
  Claimed claimed;
  claimed.inputs.push_back(call.id(0));
  if (cell == "lstm") {
    const auto state = call.list(1);
    if (state.size() != 2) return std::nullopt;
    claimed.inputs.insert(claimed.inputs.end(), state.begin(), state.end());
  } else {
    if (!call.is_tensor(1)) return std::nullopt;
    claimed.inputs.push_back(call.id(1));
  }
  const auto parameters = call.list(2);
  if (static_cast<int64_t>(parameters.size()) !=
      c.layers * c.directions() * static_cast<int64_t>(c.per_direction()))
    return std::nullopt;
  claimed.inputs.insert(claimed.inputs.end(), parameters.begin(), parameters.end());
  claimed.config = c;
  return claimed;
}

/// Weights of one direction of one layer as the GEMMs read them: `[N, I, G]`, `[N, H, G]`, biases
/// `[N, 1, G]`. They depend on parameters only.
struct Weights {
  Tensor input, hidden, input_bias, hidden_bias;
};

using State = std::array<Tensor, 2>;  // h, and c of lstm; [N, B, H]

/// A cell: orders the gates for its step, and computes one step. `x` is the input's part of the
/// gates, bias included; `multiply(base, h)` adds the hidden state's part to `base`.
struct Cell {
  std::function<Tensor(const Tensor&)> reorder;  // gates lie along axis 1
  bool hidden_bias_apart = false;                // the step needs the hidden part by itself
  std::function<State(const Tensor& x, const State& state, const Tensor& hidden,
                      const Tensor& hidden_bias)>
      step;
};

inline Weights pack(const Cell& cell, const Tensor* p, bool biases) {
  const auto order = [&](const Tensor& t) { return cell.reorder ? cell.reorder(t) : t; };
  Weights w;
  w.input = order(p[0]).transpose(1, 2).contiguous();
  w.hidden = order(p[1]).transpose(1, 2).contiguous();
  if (!biases) return w;
  w.input_bias = order(p[2]).unsqueeze(1);
  w.hidden_bias = order(p[3]).unsqueeze(1);
  if (cell.hidden_bias_apart) return w;
  w.input_bias = w.input_bias + w.hidden_bias;
  w.hidden_bias = Tensor();
  return w;
}

/// h x W, added to `base` if it is defined.
inline Tensor add_product(const Tensor& base, const Tensor& h, const Tensor& w) {
  return base.defined() ? at::baddbmm(base, h, w) : at::bmm(h, w);
}

/// Computes one direction: from `x` [N, T, B, I] the hidden states [N, T, B, H] and the last state.
/// One batched GEMM computes the input's part of all steps, another one each step's hidden part.
inline Tensor direction(const Cell& cell, const Weights& w, const Tensor& x, State state,
                        bool reverse, State* last) {
  const int64_t n = x.size(0), time = x.size(1), batch = x.size(2), gates = w.input.size(2);
  Tensor share = at::bmm(x.reshape({n, time * batch, x.size(3)}), w.input);
  if (w.input_bias.defined()) share = share + w.input_bias;
  const Tensors steps = share.view({n, time, batch, gates}).unbind(1);
  Tensors out(static_cast<size_t>(time));
  for (int64_t k = 0; k < time; ++k) {
    const auto t = static_cast<size_t>(reverse ? time - 1 - k : k);
    state = cell.step(steps[t], state, w.hidden, w.hidden_bias);
    out[t] = state[0];
  }
  *last = state;
  return at::stack(out, 1);
}

/// Computes one direction by the engine's operator, with packed weights and biases in its order.
/// `x` and the result are [N, B, T, ...], or [N, T, B, ...] when `time_major`.
inline Tensor direction_resident(const RecurrentConfig& c, const Tensor* p, const Tensor& x,
                                 const State& first, bool reverse, bool time_major, State* last) {
  const int64_t h = p[1].size(2);
  const bool gru = c.cell == "gru";
  const auto new_first = [h](const Tensor& t) {  // gates r z n as n r z
    return at::cat({t.narrow(1, 2 * h, h), t.narrow(1, 0, 2 * h)}, 1);
  };
  RecurrentLayer layer{x,
                       (gru ? new_first(p[0]) : p[0]).transpose(1, 2),
                       p[1].transpose(1, 2),
                       std::nullopt,
                       first[0],
                       std::nullopt,
                       c.cell,
                       reverse,
                       time_major};
  if (c.biases && gru) {
    const Tensor sum = p[2].narrow(1, 0, 2 * h) + p[3].narrow(1, 0, 2 * h);
    layer.bias = at::cat({p[2].narrow(1, 2 * h, h), sum, p[3].narrow(1, 2 * h, h)}, 1);
  } else if (c.biases) {
    layer.bias = p[2] + p[3];
  }
  if (first[1].defined()) layer.c0 = first[1];
  const auto [y, states] = recurrent_layer(layer);
  for (size_t s = 0; s < c.states(); ++s) (*last)[s] = states.select(1, static_cast<int64_t>(s));
  return y;
}

/// All layers and directions. Returns the output, then the final states `[N, layers*D, B, H]`.
/// Without a cell the engine's operator computes the steps.
inline Tensors run(const RecurrentConfig& c, const WideCall& call, const Cell* cell) {
  const Tensor* parameters = call.inputs.data() + 1 + c.states();
  const bool turned = cell != nullptr && c.batch_first;
  Tensor x = turned ? call.inputs[0].transpose(1, 2) : call.inputs[0];
  std::array<Tensors, 2> finals;
  for (int64_t l = 0; l < c.layers; ++l) {
    Tensors made;
    for (int64_t d = 0; d < c.directions(); ++d) {
      const int64_t k = l * c.directions() + d;
      const Tensor* p = parameters + k * static_cast<int64_t>(c.per_direction());
      State first, last;
      for (size_t s = 0; s < c.states(); ++s) first[s] = call.inputs[1 + s].select(1, k);
      made.push_back(cell != nullptr
                         ? direction(*cell, pack(*cell, p, c.biases), x, first, d == 1, &last)
                         : direction_resident(c, p, x, first, d == 1, !c.batch_first, &last));
      for (size_t s = 0; s < c.states(); ++s) finals[s].push_back(last[s]);
    }
    x = made.size() == 1 ? made[0] : at::cat(made, -1);
  }
  Tensors results{turned ? x.transpose(1, 2) : x};
  for (size_t s = 0; s < c.states(); ++s) results.push_back(at::stack(finals[s], 1));
  return results;
}

/// The network of a single model.
inline Network network(const std::string& name, const Shape& shape, int64_t gates) {
  at_least_where_given(name.c_str(), shape, {"layers"}, 1);
  RecurrentConfig c;
  c.cell = name == "rnn" ? (shape.get("relu", 0) != 0 ? "rnn_relu" : "rnn_tanh") : name;
  c.layers = shape.get("layers", 1);
  c.bidirectional = shape.get("bidirectional", 0) != 0;
  c.batch_first = shape.get("batch_first", 1) != 0;
  c.biases = shape.get("biases", 1) != 0;
  const int64_t b = shape["B"], time = shape["T"], in = shape["I"], h = shape["H"];
  const double scale = 1.0 / std::sqrt(double(h));
  Network net;
  net.name = name;
  net.tensors.push_back(input("x", c.batch_first ? Sizes{b, time, in} : Sizes{time, b, in}));
  for (const char* state : {"h0", "c0"})
    if (net.tensors.size() <= c.states())
      net.tensors.push_back(input(state, {c.layers * c.directions(), b, h}, Fill::normal, 0.5));
  for (int64_t l = 0; l < c.layers; ++l)
    for (int64_t d = 0; d < c.directions(); ++d) {
      const std::string suffix = fmt::format("_l{}{}", l, d == 1 ? "_reverse" : "");
      const int64_t width = l == 0 ? in : h * c.directions();
      net.tensors.push_back(parameter("weight_ih" + suffix, {gates * h, width}, scale));
      net.tensors.push_back(parameter("weight_hh" + suffix, {gates * h, h}, scale));
      if (!c.biases) continue;
      net.tensors.push_back(parameter("bias_ih" + suffix, {gates * h}, scale));
      net.tensors.push_back(parameter("bias_hh" + suffix, {gates * h}, scale));
    }
  net.forward = [c](const Tensors& t) {
    const auto from = static_cast<std::ptrdiff_t>(1 + c.states());
    const Tensors p(t.begin() + from, t.end());
    if (c.cell == "lstm") {
      const auto [y, hn, cn] = at::lstm(t[0], {t[1], t[2]}, p, c.biases, c.layers, 0.0, false,
                                        c.bidirectional, c.batch_first);
      return Tensors{y, hn, cn};
    }
    const auto call = [&](auto function) {
      const auto [y, hn] =
          function(t[0], t[1], p, c.biases, c.layers, 0.0, false, c.bidirectional, c.batch_first);
      return Tensors{y, hn};
    };
    if (c.cell == "gru") return call([](auto&&... a) { return at::gru(a...); });
    if (c.cell == "rnn_relu") return call([](auto&&... a) { return at::rnn_relu(a...); });
    return call([](auto&&... a) { return at::rnn_tanh(a...); });
  };
  return net;
}

inline double flops(const Shape& s, int64_t gates) {
  const double d = s.get("bidirectional", 0) ? 2 : 1, h = double(s["H"]);
  double sum = 0;
  for (int64_t l = 0; l < s.get("layers", 1); ++l)
    sum += d * 2.0 * double(s["B"]) * double(s["T"]) * double(gates) * h *
           ((l == 0 ? double(s["I"]) : d * h) + h);
  return sum;
}

/// Python code that makes the layer of torch.nn, with further `arguments` for its constructor.
inline std::string oracle(const std::string& layer, const std::string& states,
                          const std::string& arguments = "") {
  return fmt::format(R"(
layer = load(nn.{}(a.I, a.H, num_layers=a.layers, bias=bool(a.biases),
                   batch_first=bool(a.batch_first), bidirectional=bool(a.bidirectional){}))
out, state = layer(t['x'], {})
y = [out, *state] if isinstance(state, tuple) else [out, state]
)",
                     layer, arguments, states);
}

/// The target of a family: axes, sweeps, tolerance and the two strategies.
inline Target target(const std::string& name, int64_t gates,
                     const std::function<Cell(const RecurrentConfig&)>& cell) {
  Target t;
  t.name = name;
  t.family = "recurrent";
  t.axes = axes({"B", "T"}, {{"I", "features in"},
                             {"H", "features of the state"},
                             {"layers", "one on top of the other", 1},
                             {"bidirectional", "1: also from the end", 0},
                             {"batch_first", "0: x is [T, B, I]", 1},
                             {"biases", "0: none", 1}});
  t.odd_shapes = {"B=1 T=1 I=1 H=1", "B=3 T=5 I=2 H=3 layers=2 bidirectional=1",
                  "B=2 T=3 I=4 H=3 layers=3 batch_first=0 biases=0"};
  t.network = [name, gates](const Shape& s) { return network(name, s, gates); };
  t.sweeps["quick"] = {{8, 16, 32}, {"B=8 T=32 I=64 H=128"}};
  t.sweeps["full"] = {
      {4, 8, 16, 32, 64},
      grid({{"B", {4, 8, 16}}, {"T", {32, 64}}, {"I", {64, 128}}, {"H", {128, 256}}})};
  t.sweeps["ci"] = {{4, 8}, {"B=4 T=8 I=16 H=32"}};
  t.flops = [gates](const Shape& s) { return flops(s, gates); };
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "errors of I + H terms carried through T steps";
  t.refusals = {
      {"B=1 T=0 I=2 H=2", fmt::format("[{}] T: got 0, expected at least 1; try T=1", name)},
      {"B=1 T=1 I=2 H=2 layers=0",
       fmt::format("[{}] layers: got 0, expected at least 1; try layers=1", name)}};
  t.strategies = {
      strategy<RecurrentConfig>(
          "resident", "models outside, time inside: one model's weights stay in cache, inference",
          [](const RecurrentConfig& c, const WideCall& w) { return run(c, w, nullptr); }, {},
          {"wide::pack_panels", "wide::recurrent_layer"}),
      strategy<RecurrentConfig>("fused",
                                "the input's GEMM over all steps, then one batched GEMM per step",
                                [cell](const RecurrentConfig& c, const WideCall& w) {
                                  const Cell made = cell(c);
                                  return run(c, w, &made);
                                })};
  t.parameter_inputs.assign(name == "lstm" ? 3 : 2, false);
  t.parameter_inputs.insert(t.parameter_inputs.end(), 256, true);  // any number of layers
  return t;
}

}  // namespace recurrent
}  // namespace wide
