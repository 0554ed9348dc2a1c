// Every file in primitives/ and blocks/ registers something; every network fuses under every
// strategy of the primitives inside it.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/widen/axes.h"
#include "tests/properties/harness.h"

namespace wide::testing {
namespace {

TEST(Registration, EveryFileRegistersSomething) {
  const char* source = std::getenv("WORKBENCH_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "WORKBENCH_SOURCE is not set";
  const std::filesystem::path root(source);
  std::set<std::string> registered;
  const auto note = [&](const Target* target) { registered.insert(target->file); };
  for (const Target* target : targets()) note(target);
  for (const Target* target : claimants()) note(target);
  size_t files = 0;
  for (const char* folder : {"primitives", "blocks"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string path = std::filesystem::relative(entry.path(), root).string();
      if (entry.path().extension() != ".cpp" || path.find("/kernels/") != path.npos) continue;
      ++files;
      if (std::any_of(registered.begin(), registered.end(),
                      [&](const std::string& file) { return file.ends_with("/" + path); }))
        continue;
      // A file of decompositions has no target; those are found by what they replace.
      std::ifstream in(entry.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      EXPECT_NE(text.find("add_decomposition("), std::string::npos)
          << entry.path() << " registers nothing";
    }
  EXPECT_GE(files, 20u);
}

TEST(Registration, NamesAreUnique) {
  std::set<std::string> names;
  for (const Target* target : targets()) EXPECT_TRUE(names.insert(target->name).second);
  for (const Target* target : claimants()) {
    if (!target->network) {
      EXPECT_TRUE(names.insert(target->name).second) << target->name;
    }
    std::set<std::string> strategies{"vmap", "per_model"};
    for (const Strategy& s : target->strategies)
      EXPECT_TRUE(strategies.insert(s.name).second) << target->name << "/" << s.name;
  }
}

TEST(Registration, OptionalAxesStandForWhatTheySay) {
  int seen = 0;
  for (const Target* target : targets())
    for (const OptionalAxis& axis : axes_of(target->name)) {
      SCOPED_TRACE(target->name + "." + axis.name);
      ++seen;
      EXPECT_FALSE(axis.meaning.empty());
      const Shape shape = target->sweeps.at("ci").shapes.at(0);
      if (shape.has(axis.name) || !axis.otherwise) continue;
      const Network plain = target->network(shape);
      const Network same = target->network(Shape(shape).set(axis.name, *axis.otherwise));
      ASSERT_EQ(plain.tensors.size(), same.tensors.size());
      const at::NoGradGuard guard;
      const Tensors model = generate(plain, 1, at::kDouble, at::kCPU, 3).model(0);
      const Tensors expected = plain.forward(model), got = same.forward(model);
      for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(got[k].equal(expected[k]));
    }
  EXPECT_GE(seen, 20);
}

TEST(Networks, FuseUnderEveryStrategyOfTheirPrimitives) {
  const at::NoGradGuard guard;
  for (const Target* model : targets()) {
    if (model->kind == Kind::primitive) continue;
    const Network network = model->network(model->sweeps.at("ci").shapes.at(0));
    const Ensemble ensemble = generate(network, 3, at::kDouble, at::kCPU, 23);
    const Program single = record_one(network, ensemble.model(0));
    const Tensors expected = separate_models(network, single, ensemble);
    Coverage plain;
    wide_models(single, ensemble, {}, &plain);
    EXPECT_EQ(plain.counts()[Way::per_model], 0) << model->name;
    std::set<std::string> inside;
    for (const CoverageItem& item : plain.items)
      if (!item.primitive.empty()) inside.insert(item.primitive);
    EXPECT_FALSE(inside.empty()) << model->name;
    for (const Target* primitive : claimants()) {
      if (!inside.count(primitive->name)) continue;
      for (const std::string& strategy : strategy_names(*primitive)) {
        SCOPED_TRACE(model->name + " " + primitive->name + "=" + strategy);
        const Tensors got = wide_models(single, ensemble, {{primitive->name, strategy}});
        EXPECT_LT(relative_error(got, expected), 1e-9);
      }
    }
  }
}

TEST(Networks, FoldBatchNormIntoConvolutions) {
  const at::NoGradGuard guard;
  const Network network = find_target("resblock").network({{"B", 2}, {"C", 4}, {"H", 5}, {"W", 5}});
  const Ensemble ensemble = generate(network, 3, at::kDouble, at::kCPU, 23);
  const Program single = record_one(network, ensemble.model(0));
  Coverage coverage;
  const Tensors got = wide_models(single, ensemble, {}, &coverage);
  EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), 1e-9);
  int folded = 0;
  for (const CoverageItem& item : coverage.items) folded += item.strategy == "folded into conv2d";
  EXPECT_EQ(folded, 2);
}

TEST(Networks, FoldBatchNormIntoConvolutionsOfEveryRank) {
  const at::NoGradGuard guard;
  for (const size_t dims : {1, 3}) {
    const std::string name = fmt::format("conv{}d", dims);
    Network network;
    Sizes x{2, 4}, w{6, 4};
    x.insert(x.end(), dims, 5);
    w.insert(w.end(), dims, 3);
    network.tensors = {{"x", Role::input, x},
                       {"w", Role::parameter, w},
                       {"scale", Role::parameter, {6}},
                       {"mean", Role::buffer, {6}},
                       {"var", Role::buffer, {6}, at::kFloat, Fill::positive}};
    network.forward = [dims](const Tensors& t) {
      const Sizes ones(dims, 1), zeros(dims, 0);
      const Tensor y = at::convolution(t[0], t[1], {}, ones, ones, ones, false, zeros, 1);
      return Tensors{at::batch_norm(y, t[2], {}, t[3], t[4], false, 0.1, 1e-5, true)};
    };
    const Ensemble ensemble = generate(network, 3, at::kDouble, at::kCPU, 23);
    const Program single = record_one(network, ensemble.model(0));
    Coverage coverage;
    const Tensors got = wide_models(single, ensemble, {}, &coverage);
    EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), 1e-9) << name;
    EXPECT_TRUE(std::any_of(coverage.items.begin(), coverage.items.end(), [&](const auto& item) {
      return item.strategy == "folded into " + name;
    })) << name;
  }
}

}  // namespace
}  // namespace wide::testing
