#pragma once
#include <ATen/ATen.h>

#include "engine/widen/target.h"

// Targets to plant faults in. They exist only in children of a test, which ask for them by the
// environment.
namespace wide {

struct Planted {
  std::string text() const { return "planted"; }
};

/// `x[4, 6]` through a linear layer, three models in the sweep ci.
inline Network planted_linear() {
  Network net;
  net.tensors = {
      {"w", Role::parameter, {6, 6}}, {"b", Role::parameter, {6}}, {"x", Role::input, {4, 6}}};
  net.forward = [](const Tensors& t) { return Tensors{at::linear(t[2], t[0], t[1])}; };
  return net;
}

/// The right answer of planted_linear for all models: `x[N, B, I]`, `w[N, O, I]`, `b[N, O]`.
inline Tensor planted_product(const Tensor& x, const Tensor& w, const Tensor& b) {
  return at::baddbmm(b.unsqueeze(1), x, w.transpose(1, 2));
}
inline Tensor planted_product(const WideCall& c) {
  return planted_product(c.inputs[0], c.inputs[1], c.inputs[2]);
}

/// `network` as a target that takes the calls of `op` by those arguments, with no strategy yet.
inline Target planted_target(const std::string& name, const std::string& op, Network network,
                             const std::vector<int64_t>& arguments) {
  Target t;
  t.name = network.name = name;
  t.family = "planted";
  t.axes = {{"B", "samples"}};
  network.instantiate = [network](const Tensors& weights) { return bind(network, weights); };
  t.network = [network](const Shape&) { return network; };
  t.sweeps["ci"] = {{3}, {Shape{{"B", 4}}}};
  t.claims = {{op, [arguments](const CallView& call) -> std::optional<Claimed> {
                 Claimed claimed{Planted{}, {}, {}};
                 for (const int64_t i : arguments)
                   claimed.inputs.push_back(call.id(static_cast<size_t>(i)));
                 return claimed;
               }}};
  t.parameter_inputs.assign(arguments.size(), false);
  return t;
}

}  // namespace wide
