// What a fusion believes of its baselines.
#include "app/fuse/fuse.h"

#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/record/record.h"
#include "engine/widen/describe.h"

namespace wide {
namespace {

TEST(FuseRun, ALoopThatIsNotWhatWasRecordedIsSaid) {
  Network network;
  network.name = "doubled";
  network.tensors = {input("x", {3, 4}), parameter("weight", {2, 4})};
  network.forward = [](const Tensors& t) -> Tensors { return {at::linear(t[0], t[1])}; };
  network = as_function(network);
  const Network honest = network;
  network.instantiate = [honest](const Tensors& weights) {
    return honest.instantiate({weights[0] * 2});
  };
  const Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 5);
  const Tensors first = ensemble.model(0);
  const Program single = record(
      {{"x", Role::input, first[0]}, {"weight", Role::parameter, first[1]}}, network.forward);
  const Tensors expected = reference(single, ensemble);
  for (const bool wrong : {false, true}) {
    std::vector<std::string> notes;
    std::string disagreement;
    const auto good = honest_baselines(wrong ? network : honest, ensemble, 1, expected, 1e-2,
                                       &notes, &disagreement);
    EXPECT_EQ(disagreement.empty(), !wrong) << disagreement;
    EXPECT_EQ(
        std::any_of(good.begin(), good.end(), [](const Baseline& b) { return b.name == "loop"; }),
        !wrong);
  }
}

}  // namespace
}  // namespace wide
