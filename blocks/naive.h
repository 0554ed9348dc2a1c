#pragma once
#include "blocks/layers.h"

namespace wide {

/// Naive forms of layers: every step is its own operator.

/// softmax(q kᵀ / sqrt(d)) v of q, k, v `[.., T, d]`, the scores in memory.
inline Tensor naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(-1)));
  if (causal) {
    const Tensor all = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool));
    scores = scores.masked_fill(at::triu(all, 1), -INFINITY);
  }
  return at::matmul(at::softmax(scores, -1), v);
}

inline Tensor naive_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor centred = x - x.mean(-1, /*keepdim=*/true);
  const Tensor variance = centred.pow(2).mean(-1, /*keepdim=*/true);
  return centred / at::sqrt(variance + 1e-5) * weight + bias;
}

/// `[B,T,h d]` as `[B,h,T,d]`, and back.
inline Tensor apart(const Tensor& x, int64_t h) { return x.unflatten(-1, {h, -1}).transpose(1, 2); }
inline Tensor together(const Tensor& x) { return x.transpose(1, 2).flatten(-2); }

/// A projection to queries, keys and values each, without bias: `q`, `k`, `v`.
inline void projections(Layers& layers, int64_t d) {
  for (const char* name : {"q", "k", "v"}) layers.weight(name, {d, d}, double(d));
}

/// The weights of the projections, from `first` on, joined.
inline Tensor joined(const Tensors& t, size_t first) {
  return at::cat({t[first], t[first + 1], t[first + 2]});
}

/// A form that prepares its weights once: gets all tensors, of which the first, x, may be
/// undefined, and returns a function of x.
using Prepare = std::function<std::function<Tensor(const Tensor&)>(const Tensors&)>;

inline Network prepared(const Layers& layers, const std::string& name, Prepare prepare) {
  Network net;
  net.name = name;
  net.tensors = layers.tensors;
  net.forward = [prepare](const Tensors& t) { return Tensors{prepare(t)(t[0])}; };
  net.instantiate = [prepare](const Tensors& weights) -> Model {
    Tensors all{Tensor()};
    all.insert(all.end(), weights.begin(), weights.end());
    return [form = prepare(all)](const Tensors& inputs) { return Tensors{form(inputs[0])}; };
  };
  return net;
}

/// A target with the settings of the suite `components`.
inline Target component(std::string name, std::string summary, std::string formula,
                        std::function<Network(const Shape&)> naive,
                        std::function<Network(const Shape&)> optimised, const Shape& suite,
                        const Shape& small) {
  Target t;
  t.name = std::move(name);
  t.kind = Kind::block;
  t.family = "naive";
  t.summary = std::move(summary);
  t.formula = std::move(formula);
  t.source = "compiler-friendly components, before";
  t.network = std::move(naive);
  t.optimised = std::move(optimised);
  t.axes = axes({"B", "T", "D"});
  t.sweeps["suite"] = {{1}, {suite}};
  t.sweeps["quick"] = {{4, 8}, {small}};
  t.sweeps["full"] = {{2, 4, 8, 16}, {small}};
  t.sweeps["ci"] = {{4}, {small}};
  t.tolerance = {{at::kFloat, 1e-4}, {at::kDouble, 1e-10}};
  t.tolerance_reason = "sums of up to 4D terms in an order of the library's choice";
  return t;
}

/// `apart` and others in Python, for oracles.
inline constexpr const char* kNaiveOracle = R"(
def apart(x):
    return x.unflatten(-1, (a.h, -1)).transpose(1, 2)

def mha(x):
    q, k, v = (apart(nn.functional.linear(x, t[f'{n}.weight'])) for n in 'qkv')
    y = nn.functional.scaled_dot_product_attention(q, k, v)
    return linear('out')(y.transpose(1, 2).flatten(-2))
)";

}  // namespace wide
