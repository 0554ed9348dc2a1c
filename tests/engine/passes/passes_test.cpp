#include "engine/passes/pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/wide.h"
#include "engine/widen/derivative.h"
#include "engine/widen/target.h"
#include "primitives/kernels/convolution/depthwise_convolution.h"
#include "primitives/kernels/convolution/direct_convolution.h"

namespace wide::passes_test {
namespace {

const Pass& pass(const std::string& name) {
  for (const Pass& p : passes())
    if (p.name == name) return p;
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
  program.remove_dead_nodes();
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

TEST(Passes, Chains) {
  // Functions that are the same to the bit either way. What is read twice, is a result, or has
  // other sizes ends a chain.
  golden("chains",
         {wide_input("x", {2, 3, 4}), wide_input("bias", {2, 1, 4}), wide_input("y", {2, 3, 4})},
         [](const Tensors& t) {
           const Tensor mask = t[2] > 0.25;
           const Tensor a = at::where(mask, at::relu(t[0] * t[1]) + t[2], at::scalar_tensor(0.5));
           const Tensor row = (t[1] * 2).abs();
           const Tensor b = at::clamp(a - row, -1, 2).masked_fill(mask, -3);
           return Tensors{a, b.sum(-1) + 1, at::rand_like(b) * 0 + at::sgn(b * b)};
         });
}

TEST(Passes, FasterKernels) {
  // One pool's indices are read; one softmax is not of rows that lie one after the other.
  golden("faster-kernels", {wide_input("x", {2, 3, 6, 5})}, [](const Tensors& t) {
    const auto [alone, unread] = at::max_pool2d_with_indices(t[0], {2, 2});
    const auto [values, indices] = at::max_pool2d_with_indices(t[0], {3, 3}, {2, 2}, {1, 1});
    return Tensors{alone, values, indices, at::softmax(t[0], 1)};
  });
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({2, 3, 7});
  Program program = record(
      {{"x", Role::input, x, true}},
      [](const Tensors& t) {
        return Tensors{at::softmax(t[0], -1), at::log_softmax(t[0], 2)};
      },
      2);
  EXPECT_EQ(pass("faster-kernels").run(program), "replaced 1 aten::_log_softmax, 1 aten::_softmax");
  program.verify();
  const Tensors got = interpret(program, {x});
  EXPECT_TRUE(at::allclose(got[0], at::softmax(x, -1), 1e-6, 1e-7));
  EXPECT_TRUE(at::allclose(got[1], at::log_softmax(x, -1), 1e-6, 1e-6));
}

TEST(Passes, ReluAfterPool) {
  // Through views and a copy, as convolutions of all models make them; at once, with windows that
  // overlap. Not where relu's result is read by another, nor where the pool's gradient or indices
  // are.
  const auto pooled = [](const Tensor& y, const Tensor& g, bool moved) {
    const Tensor r = at::relu(moved ? y.transpose(0, 1) : y);
    const Tensor x = moved ? r.transpose(0, 1).clone() : r;
    const auto [out, indices] = at::max_pool2d_with_indices(x, {3, 3}, {2, 2}, {1, 1});
    const Tensor dx =
        at::max_pool2d_with_indices_backward(g, x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, indices);
    return Tensors{out, at::threshold_backward(moved ? dx.transpose(0, 1) : dx, r, 0), r, dx,
                   indices};
  };
  golden("relu-after-pool", {wide_input("x", {2, 3, 6, 5}), wide_input("g", {2, 3, 3, 3})},
         [&](const Tensors& t) {
           const Tensors a = pooled(t[0], t[1], true), b = pooled(t[0] - 1, t[1], false),
                         c = pooled(t[0] + 1, t[1], false), d = pooled(t[0] * 2, t[1], false),
                         e = pooled(t[0] - 2, t[1], false);
           return Tensors{a[0], a[1], b[0], b[1], c[0], c[1], c[2],
                          d[0], d[1], d[3], e[0], e[1], e[4]};
         });
}

TEST(Passes, PoolPlaces) {
  // A pool whose indices only its gradient reads; one whose indices go out; one with dilation.
  golden("pool-places", {wide_input("x", {2, 3, 6, 5}), wide_input("g", {2, 3, 3, 2})},
         [](const Tensors& t) {
           const auto backward = [&](const Tensor& g, const Tensor& indices, int64_t dilation) {
             return at::max_pool2d_with_indices_backward(g, t[0], {2, 2}, {2, 2}, {0, 0},
                                                         {dilation, dilation}, false, indices);
           };
           const auto [y, inner] = at::max_pool2d_with_indices(t[0], {2, 2});
           const auto [z, outer] = at::max_pool2d_with_indices(t[0] * 2, {3, 2}, {1, 2});
           const auto [d, wide] = at::max_pool2d_with_indices(t[0], {2, 2}, {2, 2}, {0, 0}, {2, 2});
           return Tensors{y, backward(t[1], inner, 1), z, outer, backward(d, wide, 2)};
         });
}

TEST(Passes, Paddings) {
  // In front alone, around what has a padding already, two axes, one that another reads too; not
  // other values than zero, nor around channels.
  const auto direct = [](const Tensor& x, const Tensor& w, Sizes padding, Sizes output) {
    const Sizes ones(padding.size(), 1);
    Sizes kernel(w.sizes().begin() + 3, w.sizes().end());
    return direct_convolution(x, pack_filters(w, 1, false), {}, w.size(1),
                              {kernel, ones, std::move(padding), ones, std::move(output)});
  };
  golden("paddings",
         {wide_input("x", {2, 3, 2, 9}), wide_input("w", {2, 5, 2, 3}),
          wide_input("image", {2, 1, 2, 5, 6}), wide_input("f", {2, 2, 1, 3, 2})},
         [&](const Tensors& t) {
           const Tensor read_twice = at::constant_pad_nd(t[0], {4, 0});
           const Tensor image = at::constant_pad_nd(t[2], {1, 2, 0, 3});
           return Tensors{
               direct(at::constant_pad_nd(t[0], {2, 0}), t[1], {0}, {9}),
               direct(read_twice, t[1], {1}, {13}),
               read_twice.sum(-1),
               depthwise_convolution(image, t[3], {}, {{1, 2}, {1, 0}, {1, 1}, {8, 4}}),
               direct(at::constant_pad_nd(t[0], {2, 0}, 1), t[1], {0}, {9}),
               direct(at::constant_pad_nd(t[0], {0, 0, 0, 1}).narrow(2, 1, 2), t[1], {0}, {7})};
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
  for (const Pass& p : passes()) {
    if (!p.run) continue;
    p.run(program);
    program.verify();
    const Tensors after = draw(program);
    EXPECT_TRUE(before[0].equal(after[0]) && before[1].equal(after[1])) << p.name;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Pass& p : passes()) all.push_back(p.name);
  return all;
}

TEST(PassTable, HasEveryPassOnceInTheOrderInWhichTheyRun) {
  EXPECT_EQ(names(), (std::vector<std::string>{"fold", "common-subexpressions", "layout",
                                               "dead-code", "relu-after-pool", "pool-places",
                                               "faster-kernels", "paddings", "split", "products",
                                               "chains", "ranges", "kernels", "memory-plan"}));
  for (const Pass& p : passes()) {
    EXPECT_EQ(p.stage == Stage::program, static_cast<bool>(p.run)) << p.name;
    EXPECT_FALSE(p.summary.empty()) << p.name;
  }
}

/// What `work` refuses, in its own words.
std::string refused(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "not refused";
}

TEST(PassTable, RefusesUnknownNamesWhereverTheyAreGiven) {
  const std::string line =
      "[--passes-off] name: got layuot, expected one of fold, common-subexpressions, layout, "
      "dead-code, relu-after-pool, pool-places, faster-kernels, paddings, split, products, chains, "
      "ranges, kernels, "
      "memory-plan; try layout";
  EXPECT_EQ(refused([] { check_pass_names({"split", "layuot"}); }), line);
  EXPECT_EQ(refused([] { Builder().without("layuot"); }), line);
  Options options;
  options.passes_off = {"layuot"};
  const Module relu{[](const Tensors& in) { return Tensors{at::relu(in[0])}; }, {}, {}};
  EXPECT_EQ(refused([&] { wide::compile(relu, 2, {at::randn({3})}, options); }), line);
  EXPECT_EQ(refused([&] { wide::compile(relu, 2, {}, options); }), line) << "before any call";
  Network net;
  net.tensors = {{"x", Role::input, {3}}};
  net.forward = [](const Tensors& t) { return Tensors{at::relu(t[0])}; };
  CompileOptions compile_options;
  compile_options.passes_off = {"layuot"};
  const Ensemble ensemble = generate(net, 2, at::kFloat, at::kCPU, 1);
  EXPECT_EQ(refused([&] { compile(net, ensemble, compile_options); }), line);
  EXPECT_NE(refused([] { check_pass_names({"shards"}); }).find("try workbench list passes"),
            std::string::npos);
  EXPECT_ANY_THROW(pass_is_on("layuot", {}));
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
  const Tensors expected = in_double(single, ensemble);
  const double own = max_relative_error(separate(single, ensemble), expected);
  std::vector<std::set<std::string>> switches{{}};
  for (const std::string& name : names()) switches.push_back({name});
  for (const std::set<std::string>& off : switches) {
    CompileOptions options;
    options.tune = false;
    options.verify = true;
    options.threads = 2;
    options.passes_off = off;
    auto model = compile(net, ensemble, options, single);
    const Tensors got = as_function(*model, net)(ensemble);
    EXPECT_LE(max_relative_error(got, expected),
              std::max(target.tolerance_for(at::kFloat), 4 * own))
        << (off.empty() ? "all on" : *off.begin() + " off");
  }
}

/// A network in which every pass of widening and of the program finds something to do.
Network with_work_for_passes() {
  Network net;
  net.name = "work";
  net.tensors = {{"w", Role::parameter, {4, 3, 3, 3}},
                 {"scale", Role::parameter, {4}, at::kFloat, Fill::near_one},
                 {"shift", Role::parameter, {4}},
                 {"mean", Role::buffer, {4}},
                 {"variance", Role::buffer, {4}, at::kFloat, Fill::positive},
                 {"x", Role::input, {2, 3, 5, 5}}};
  net.forward = [](const Tensors& t) {
    const Tensor y =
        at::batch_norm(at::conv2d(t[5], t[0]), t[1], t[2], t[3], t[4], false, 0.1, 1e-5, false);
    const Tensor there_and_back = at::relu(y.transpose(1, 2)).transpose(1, 2);
    return Tensors{at::exp(y) * 2 + at::exp(y), there_and_back.transpose(2, 3).transpose(2, 3),
                   at::matmul(y, y.transpose(2, 3)),
                   at::conv2d(at::constant_pad_nd(t[5], {2, 0, 1, 0}), t[0])};
  };
  return net;
}

/// One for the passes of gradients: relu and a pool whose gradient is asked for.
Network with_work_for_gradients() {
  Network net;
  net.name = "work";
  net.tensors = {{"w", Role::parameter, {4, 3, 3, 3}}, {"x", Role::input, {2, 3, 6, 6}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::max_pool2d(at::relu(at::conv2d(t[1], t[0])), 2)};
  };
  return phase_network(net, record_single(net, generate(net, 1, at::kFloat, at::kCPU, 7)),
                       "backward", "adam");
}

/// One for the passes of lowering; what is measured there (packed convolutions) it has none of.
Network with_work_for_lowering() {
  Network net;
  net.name = "work";
  net.tensors = {
      {"a", Role::parameter, {7, 6}}, {"b", Role::parameter, {5, 7}}, {"x", Role::input, {3, 6}}};
  net.forward = [](const Tensors& t) {
    return Tensors{at::relu(at::linear(at::relu(at::linear(t[2], t[0])), t[1]))};
  };
  return net;
}

/// What a stage leaves to be seen of its work.
std::string seen(const CompiledModel& model, Stage stage) {
  if (stage == Stage::program) return model.program().text();
  if (stage == Stage::lowering) return model.plan_text();
  std::string text;
  for (const CoverageItem& item : model.coverage().items)
    text += fmt::format("{} {} {}\n", item.node, item.primitive, item.strategy);
  return text;
}

class EverySwitch : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySwitch, SwitchesItsPassAndNoOther) {
  at::NoGradGuard no_grad;
  const auto compiled = [](const Network& net, const std::set<std::string>& off) {
    CompileOptions options;
    options.tune = false;
    options.threads = 2;
    options.passes_off = off;
    // Kernels of ours, which can do an activation and a padding.
    options.widen.force["linear"] = "packed";
    options.widen.force["conv2d"] = "direct";
    return compile(net, generate(net, 3, at::kFloat, at::kCPU, 5), options);
  };
  std::vector<Network> networks{with_work_for_passes(), with_work_for_lowering(),
                                with_work_for_gradients()};
  const Stage stage = pass(GetParam()).stage;
  if (stage == Stage::lowering) networks = {with_work_for_lowering()};
  // A pass that finds nothing to do there may find it in a network of the registry.
  if (stage != Stage::lowering)
    for (const Target* t : targets())
      networks.push_back(t->network(t->sweeps.begin()->second.shapes.at(0)));
  bool shows = false;
  for (size_t k = 0; k < networks.size() && !shows; ++k) {
    const auto on = compiled(networks[k], {}), off = compiled(networks[k], {GetParam()});
    EXPECT_EQ(seen(*on, stage), seen(*compiled(networks[k], {}), stage)) << "without any switch";
    shows = seen(*on, stage) != seen(*off, stage);
    const auto done = [](const CompiledModel& model) {
      std::set<std::string> ran;
      for (const PassRecord& record : model.passes()) ran.insert(record.name);
      return ran;
    };
    std::set<std::string> expected = done(*on);
    expected.erase(GetParam());
    EXPECT_EQ(done(*off), expected);
  }
  EXPECT_TRUE(shows) << GetParam() << " off leaves everything as it is on";
}

INSTANTIATE_TEST_SUITE_P(Table, EverySwitch, ::testing::ValuesIn(names()), [](const auto& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

std::vector<std::string> all_targets() {
  std::vector<std::string> names;
  for (const Target* t : targets()) names.push_back(t->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, Switches, ::testing::ValuesIn(all_targets()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace wide::passes_test
