// Every file in primitives/ and blocks/ registers something; every network fuses under every
// strategy of the primitives inside it.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/properties/harness.h"

namespace wide::testing::registration_test {
namespace {

TEST(Registration, EveryFileRegistersSomething) {
  const char* source = std::getenv("WORKBENCH_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "WORKBENCH_SOURCE is not set";
  const std::filesystem::path root(source);
  std::set<std::string> registered;
  const auto place = [](const std::filesystem::path& file) {
    return file.parent_path().filename() / file.filename();
  };
  for (const Target* target : targets()) registered.insert(place(target->file));
  for (const Rule* rule : claimants()) registered.insert(place(rule->file));
  size_t files = 0;
  const std::set<std::filesystem::path> others{
      root / "primitives/kernels", root / "primitives/passes", root / "primitives/init",
      root / "primitives/optimizers", root / "primitives/patterns"};
  for (const char* folder : {"primitives", "blocks"})
    for (std::filesystem::recursive_directory_iterator it(root / folder), end; it != end; ++it) {
      const std::filesystem::path& file = it->path();
      if (others.count(file)) it.disable_recursion_pending();
      if (file.extension() != ".cpp") continue;
      ++files;
      if (registered.count(place(file))) continue;
      // A file of decompositions claims nothing; those are found by what they replace.
      std::ifstream in(file);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      EXPECT_NE(text.find("add_decomposition("), std::string::npos) << file << " registers nothing";
    }
  EXPECT_GE(files, 55u);
}

TEST(Registration, NamesAreUnique) {
  std::set<const Rule*> all(targets().begin(), targets().end());
  all.insert(claimants().begin(), claimants().end());
  std::set<std::string> names;
  for (const Rule* rule : all) {
    EXPECT_TRUE(names.insert(rule->name).second) << rule->name;
    std::set<std::string> strategies{"vmap", "per_model"};
    for (const Strategy& s : rule->strategies)
      EXPECT_TRUE(strategies.insert(s.name).second) << rule->name << "/" << s.name;
  }
}

TEST(Registration, ClaimantsAreRulesAndTheTargetsThatClaim) {
  size_t by_themselves = 0;
  for (const Rule* rule : claimants()) {
    EXPECT_FALSE(rule->claims.empty() && rule->patterns.empty()) << rule->name;
    EXPECT_FALSE(rule->strategies.empty()) << rule->name;
    by_themselves += std::count(targets().begin(), targets().end(), rule) == 0;
  }
  EXPECT_GE(by_themselves, 15u);
  EXPECT_GE(claimants().size() - by_themselves, 20u);
  for (const Target* target : targets()) {
    EXPECT_TRUE(target->network) << target->name;
    const bool claims = !target->claims.empty() || !target->patterns.empty();
    EXPECT_EQ(std::count(claimants().begin(), claimants().end(), target), claims) << target->name;
  }
}

// -------------------------------------------------------------------------------------- axes

/// All shapes that a target states for itself.
std::vector<Shape> shapes_of(const Target& target) {
  std::vector<Shape> shapes = target.odd_shapes;
  for (const auto& [name, sweep] : target.sweeps)
    shapes.insert(shapes.end(), sweep.shapes.begin(), sweep.shapes.end());
  return shapes;
}

TEST(Axes, AreAllThatShapesHave) {
  for (const Target* target : targets()) {
    std::set<std::string> names;
    for (const Axis& axis : target->axes) {
      SCOPED_TRACE(target->name + "." + axis.name);
      EXPECT_TRUE(names.insert(axis.name).second);
      EXPECT_FALSE(axis.meaning.empty());
      EXPECT_FALSE(axis.otherwise && !axis.derived.empty()) << "two defaults";
      for (const Shape& shape : shapes_of(*target))
        EXPECT_TRUE(shape.has(axis.name) || !axis.required()) << shape.text();
    }
    for (const Shape& shape : shapes_of(*target))
      for (const auto& [name, size] : shape.axes())
        EXPECT_TRUE(names.count(name)) << target->name << "." << name;
  }
}

TEST(Axes, StandForWhatTheySayWhereTheyAreLeftOut) {
  int seen = 0;
  for (const Target* target : targets())
    for (const Axis& axis : target->axes) {
      SCOPED_TRACE(target->name + "." + axis.name);
      const Shape shape = target->sweeps.at("ci").shapes.at(0);
      if (shape.has(axis.name) || !axis.otherwise) continue;
      ++seen;
      const Network plain = target->network(shape);
      const Network same = target->network(Shape(shape).set(axis.name, *axis.otherwise));
      ASSERT_EQ(plain.tensors.size(), same.tensors.size());
      const at::NoGradGuard guard;
      const Tensors model = generate(plain, 1, at::kDouble, at::kCPU, 3).model(0);
      at::manual_seed(5);  // dropout draws the same mask twice
      const Tensors expected = plain.forward(model);
      at::manual_seed(5);
      const Tensors got = same.forward(model);
      for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(got[k].equal(expected[k]));
    }
  EXPECT_GE(seen, 40);
}

TEST(Axes, TakeANumberOrRefuseIt) {
  const at::NoGradGuard guard;
  for (const Target* target : targets())
    for (const Axis& axis : target->axes)
      for (const int64_t size : {-2, 0, 1, 2}) {
        const Shape shape = Shape(target->sweeps.at("ci").shapes.at(0)).set(axis.name, size);
        SCOPED_TRACE(target->name + " " + shape.text());
        try {
          const Network network = target->network(shape);
          network.forward(generate(network, 1, at::kFloat, at::kCPU, 3).model(0));
        } catch (const Error& refused) {
          EXPECT_EQ(std::string(refused.what()).find("[" + target->name + "] "), 0u)
              << refused.what();
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
}

// ---------------------------------------------------------------------------------- networks

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
    for (const Rule* primitive : claimants()) {
      if (!inside.count(primitive->name)) continue;
      std::vector<std::string> ways{"vmap", "per_model"};
      for (const Strategy& s : primitive->strategies) ways.push_back(s.name);
      for (const std::string& strategy : ways) {
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

/// Where columns are channels, of a weight either way round; not where rows of a sample are.
TEST(Networks, FoldBatchNormIntoLinearLayers) {
  const at::NoGradGuard guard;
  struct Case {
    const char* name;
    Sizes x;
    bool training, folds;
    std::function<Tensor(const Tensors&)> layer;
  };
  const auto linear = [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); };
  const std::vector<Case> cases{
      {"linear", {9, 6}, false, true, linear},
      {"as many", {6, 6}, false, true, linear},
      {"fewer results than weights", {5, 6}, false, false, linear},
      {"no bias", {8, 6}, false, true, [](const Tensors& t) { return at::linear(t[0], t[1]); }},
      {"addmm",
       {9, 6},
       false,
       true,
       [](const Tensors& t) { return at::addmm(t[2], t[0], t[1].t()); }},
      {"mm", {7, 6}, false, true, [](const Tensors& t) { return at::mm(t[0], t[1].t()); }},
      {"training", {9, 6}, true, false, linear},
      {"rows of a sample", {5, 7, 6}, false, false, linear},
      {"a weight that is made", {9, 6}, false, false, [](const Tensors& t) {
         return at::mm(t[0], at::mm(t[0].t(), t[0]).narrow(1, 0, 6).matmul(t[1].t()));
       }}};
  for (const Case& c : cases) {
    Network network;
    network.training = c.training;
    network.tensors = {{"x", Role::input, c.x},
                       {"w", Role::parameter, {7, 6}},
                       {"b", Role::parameter, {7}},
                       {"scale", Role::parameter, {7}},
                       {"shift", Role::parameter, {7}},
                       {"mean", Role::buffer, {7}},
                       {"var", Role::buffer, {7}, at::kFloat, Fill::positive}};
    network.forward = [&](const Tensors& t) {
      return Tensors{
          at::batch_norm(c.layer(t), t[3], t[4], t[5], t[6], c.training, 0.1, 1e-5, true)};
    };
    const Ensemble ensemble = generate(network, 3, at::kDouble, at::kCPU, 29);
    const Program single = record_one(network, ensemble.model(0));
    Coverage coverage;
    const Tensors got = wide_models(single, ensemble, {}, &coverage);
    EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), 1e-9) << c.name;
    EXPECT_EQ(std::any_of(coverage.items.begin(), coverage.items.end(),
                          [](const auto& item) { return item.strategy == "folded into linear"; }),
              c.folds)
        << c.name;
  }
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
}  // namespace wide::testing::registration_test
