#include "engine/passes/pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

const Pass& pass(const std::string& name) {
  for (const Pass* p : passes())
    if (p->name == name) return *p;
  throw std::logic_error("no pass " + name);
}

/// Compares with tests/golden/NAME.txt; WORKBENCH_UPDATE_GOLDEN=1 writes it instead.
void expect_golden(const std::string& name, const std::string& text) {
  const char* source = std::getenv("WORKBENCH_SOURCE");
  ASSERT_NE(source, nullptr) << "run through ctest";
  const std::string path = std::string(source) + "/tests/golden/" + name + ".txt";
  if (std::getenv("WORKBENCH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "if this is meant, WORKBENCH_UPDATE_GOLDEN=1 rewrites "
                                  << path;
}

/// Records `function` wide for n = 2 and shows the program before and after one pass; the answer
/// must stay the same to the bit.
void golden(const std::string& name, const std::vector<Binding>& bindings,
            const std::function<Tensors(const Tensors&)>& function) {
  at::NoGradGuard no_grad;
  Program program = record(bindings, function, 2);
  Tensors bound;
  for (const Binding& b : bindings) bound.push_back(b.tensor);
  const Tensors before = interpret(program, bound);
  std::string text = program.text();
  const std::string said = pass(name).run(program);
  program.verify();
  text += name + ": " + said + "\n";
  remove_dead_nodes(program);
  text += program.text();
  const Tensors after = interpret(program, bound);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i]));
  expect_golden(name, text);
}

Binding wide_input(const std::string& name, Sizes sizes) {
  return {name, Role::input, at::randn(sizes), true};
}

TEST(Passes, CommonSubexpressions) {
  golden("common-subexpressions", {wide_input("x", {2, 3})}, [](const Tensors& t) {
    return Tensors{at::exp(t[0]) + at::exp(t[0]) * 2 + at::exp(t[0] * 2)};
  });
}

TEST(Passes, Layout) {
  golden("layout", {wide_input("x", {2, 3, 4, 5})}, [](const Tensors& t) {
    // Packed, a pointwise function on the wide view, packed again: the copies meet.
    const Tensor packed = t[0].transpose(0, 1).reshape({3, 8, 5});
    const Tensor y = at::relu(packed.view({3, 2, 4, 5}).transpose(0, 1));
    return Tensors{at::exp(y.transpose(0, 1).reshape({3, 8, 5})).clone()};
  });
}

TEST(Passes, DeadCode) {
  golden("dead-code", {wide_input("x", {2, 3})}, [](const Tensors& t) {
    at::exp(t[0]);
    return Tensors{at::relu(t[0])};
  });
}

TEST(Passes, Split) {
  golden("split",
         {wide_input("x", {2, 3, 4}),
          {"scale", Role::input, at::randn({4}), false},
          {"w", Role::parameter, at::randn({2, 4, 4}), true}},
         [](const Tensors& t) {
           const Tensor shared = at::exp(t[1]);
           return Tensors{at::bmm(t[0] * shared, t[2].transpose(1, 2).contiguous())};
         });
}

TEST(Passes, RandomOperatorsKeepTheirNumberAndOrder) {
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({2, 3});
  Program program = record(
      {{"x", Role::input, x, true}},
      [](const Tensors& t) {
        const Tensor a = at::rand_like(t[0]), b = at::rand_like(t[0]);
        at::rand_like(t[0]);  // unused, but it moves the generator on
        return Tensors{t[0] + a * 2 + b, at::rand_like(t[0])};
      },
      2);
  auto draw = [&](const Program& p) {
    at::manual_seed(7);
    return interpret(p, {x});
  };
  const Tensors before = draw(program);
  for (const Pass* p : passes()) {
    p->run(program);
    program.verify();
    const Tensors after = draw(program);
    EXPECT_TRUE(before[0].equal(after[0]) && before[1].equal(after[1])) << p->name;
  }
}

/// Every network of the registry, every switch: the answers stay.
class Switches : public ::testing::TestWithParam<std::string> {};

TEST_P(Switches, LeaveTheAnswersEqual) {
  at::NoGradGuard no_grad;
  const Target& target = find_target(GetParam());
  const Sweep& sweep =
      target.sweeps.count("ci") ? target.sweeps.at("ci") : target.sweeps.at("quick");
  const Network net = target.network(sweep.shapes.at(0));
  if (net.random) GTEST_SKIP() << "draws random numbers: checked by its statistics elsewhere";
  const Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 11);
  const Program single = record_single(net, ensemble);
  const Tensors expected = reference(single, ensemble);
  const double own = max_relative_error(separate(single, ensemble), expected);
  std::vector<std::string> switches{"", "fold", "shards", "memory-plan", "kernels"};
  for (const Pass* p : passes()) switches.push_back(p->name);
  for (const std::string& off : switches) {
    CompileOptions options;
    options.tune = false;
    options.verify = true;
    options.threads = 2;
    options.passes_off = {off};
    auto model = compile(net, ensemble, options);
    const Tensors got = as_function(*model, net)(ensemble);
    EXPECT_LE(max_relative_error(got, expected),
              std::max(target.tolerance_for(at::kFloat), 4 * own))
        << (off.empty() ? "all on" : off + " off");
  }
}

std::vector<std::string> all_targets() {
  std::vector<std::string> names;
  for (const Target* t : targets()) names.push_back(t->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, Switches, ::testing::ValuesIn(all_targets()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace wide
