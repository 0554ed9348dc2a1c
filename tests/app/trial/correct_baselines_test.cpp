// Which baselines a contest believes.
#include "app/trial/correct_baselines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/check/check.h"
#include "engine/record/record.h"
#include "engine/widen/describe.h"

namespace wide::correct_baselines_test {
namespace {

TEST(CorrectBaselines, ALoopThatIsNotWhatWasRecordedIsSaid) {
  Network network;
  network.name = "doubled";
  network.tensors = {input("x", {3, 4}), parameter("weight", {2, 4})};
  network.forward = [](const Tensors& t) -> Tensors { return {at::linear(t[0], t[1])}; };
  const Network honest = network;
  network.instantiate = [honest](const Tensors& weights) { return bind(honest, {weights[0] * 2}); };
  const Ensemble ensemble = generate(network, 3, at::kFloat, c10::kCPU, 5);
  const Tensors first = ensemble.model(0);
  const Program single = record(
      {{"x", Role::input, first[0]}, {"weight", Role::parameter, first[1]}}, network.forward);
  const Tensors expected = in_double(single, ensemble);
  for (const bool wrong : {false, true}) {
    const CorrectBaselines found =
        correct_baselines(baselines(wrong ? network : honest, ensemble, 1), expected,
                          /*random=*/false, 1e-2, [](const std::string&) { return true; });
    EXPECT_EQ(found.disagreement.empty(), !wrong) << found.disagreement;
    EXPECT_EQ(std::any_of(found.good.begin(), found.good.end(),
                          [](const Baseline& b) { return b.name == "loop"; }),
              !wrong);
    EXPECT_EQ(found.notes.empty(), false) << "threads are not available to one thread";
  }
}

}  // namespace
}  // namespace wide::correct_baselines_test
