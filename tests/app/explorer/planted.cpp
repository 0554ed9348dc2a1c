// A target whose strategies crash, hang and are wrong, for the explorer in a window; it exists only
// in children of a test.
#include <ATen/ATen.h>
#include <unistd.h>

#include <cstdlib>

#include "engine/registry.h"

namespace wide {
namespace {

struct NoConfig {
  std::string text() const { return "planted"; }
};

Tensor product(const WideCall& c) {
  return at::baddbmm(c.inputs[2].unsqueeze(1), c.inputs[0], c.inputs[1].transpose(1, 2));
}

Target planted() {
  Network net;
  net.name = "a_window";
  net.tensors = {
      {"w", Role::parameter, {6, 6}}, {"b", Role::parameter, {6}}, {"x", Role::input, {4, 6}}};
  net.forward = [](const Tensors& t) { return Tensors{at::linear(t[2], t[0], t[1])}; };
  net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
  Target t;
  t.name = net.name;
  t.family = "planted";
  t.network = [net](const Shape&) { return net; };
  t.sweeps["ci"] = {{3}, {Shape{{"B", 4}}}};
  t.claims = {{"aten::linear", [](const CallView& call) -> std::optional<Claimed> {
                 return Claimed{NoConfig{}, {call.id(0), call.id(1), call.id(2)}, {}};
               }}};
  t.parameter_inputs = {false, true, true};
  const auto add = [&t](const std::string& name, std::function<Tensor(const WideCall&)> run) {
    t.strategies.push_back(strategy<NoConfig>(
        name, "planted", [run](const NoConfig&, const WideCall& c) { return Tensors{run(c)}; }));
  };
  add("good", product);
  add("wrong", [](const WideCall& c) { return product(c) * 1.01; });
  add("aborts", [](const WideCall&) -> Tensor { std::abort(); });
  add("hangs", [](const WideCall&) -> Tensor {
    for (;;) pause();
  });
  return t;
}

const bool registered =
    std::getenv("WORKBENCH_PLANT_WINDOW") != nullptr && add_target(planted(), __FILE__);

}  // namespace
}  // namespace wide
