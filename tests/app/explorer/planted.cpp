// A target whose strategies crash, hang and are wrong, for the explorer in a window; it exists only
// in children of a test.
#include <unistd.h>

#include <cstdlib>

#include "tests/app/planted_target.h"

namespace wide {
namespace {

Target planted() {
  Target t = planted_target("a_window", "aten::linear", planted_linear(), {0, 1, 2});
  const auto add = [&t](const std::string& name, std::function<Tensor(const WideCall&)> run) {
    t.strategies.push_back(strategy<Planted>(
        name, "planted", [run](const Planted&, const WideCall& c) { return Tensors{run(c)}; }));
  };
  add("good", [](const WideCall& c) { return planted_product(c); });
  add("wrong", [](const WideCall& c) { return planted_product(c) * 1.01; });
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
