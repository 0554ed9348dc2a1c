#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/lower/memory/arena.h"
#include "engine/lower/memory/out_variant.h"
#include "engine/lower/plan/plan.h"
#include "engine/machine/threads.h"
#include "engine/record/record.h"
#include "engine/widen/target.h"

namespace wide::lower_test {
namespace {

TEST(Arena, NeverPutsTwoLiveBuffersOnTopOfEachOther) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 40; ++i) {
      const size_t begin = random() % 60;
      lives.push_back({static_cast<int64_t>(random() % 5000), begin, begin + random() % 10});
    }
    const ArenaLayout layout = place(lives);
    int64_t sum = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(layout.places[i].offset % 64, 0);
      EXPECT_LE(layout.places[i].offset + lives[i].bytes, layout.bytes);
      sum += lives[i].bytes + 63;
      for (size_t j = 0; j < i; ++j) {
        const bool together = lives[i].begin <= lives[j].end && lives[j].begin <= lives[i].end;
        const bool apart = layout.places[i].offset + lives[i].bytes <= layout.places[j].offset ||
                           layout.places[j].offset + lives[j].bytes <= layout.places[i].offset;
        EXPECT_TRUE(!together || apart) << i << " " << j;
      }
    }
    EXPECT_LT(layout.bytes, sum);
  }
}

TEST(Arena, UsesLentMemoryUntilItsOwnerWrites) {
  std::mt19937_64 random(5);
  int64_t own = 0, alone = 0;  // bytes of arenas with and without lent memory
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 40; ++i) {
      const size_t begin = random() % 60;
      lives.push_back({static_cast<int64_t>(random() % 5000), begin, begin + random() % 10});
    }
    const std::vector<Lent> lent{{9000, 50}, {3000, 20}, {0, 60}};
    const ArenaLayout layout = place(lives, lent, {{0, 64}});
    EXPECT_EQ(layout.places[0].lent, 0);
    EXPECT_EQ(layout.places[0].offset, 64);
    size_t used = 0;
    for (size_t i = 1; i < lives.size(); ++i) {
      const BufferPlace& at = layout.places[i];
      EXPECT_EQ(at.offset % 64, 0);
      used += at.lent >= 0;
      if (at.lent < 0) continue;
      const Lent& in = lent[static_cast<size_t>(at.lent)];
      EXPECT_LT(lives[i].end, in.until);
      EXPECT_LE(at.offset + lives[i].bytes, in.bytes);
      for (size_t j = 0; j < i; ++j) {
        const BufferPlace& other = layout.places[j];
        const bool together = lives[i].begin <= lives[j].end && lives[j].begin <= lives[i].end;
        EXPECT_TRUE(at.lent != other.lent || !together ||
                    at.offset + lives[i].bytes <= other.offset ||
                    other.offset + lives[j].bytes <= at.offset)
            << i << " " << j;
      }
    }
    EXPECT_GT(used, 5u);
    own += layout.bytes;
    alone += place(lives).bytes;
  }
  EXPECT_LT(own, alone);
}

/// A plan writes where the memory lies when it runs, not where it lay when the plan was made.
TEST(Arena, PlansFollowMemoryThatMoved) {
  const Tensor x = at::randn({5, 3});
  const Program program = record({{"x", Role::input, x, true}}, [](const Tensors& t) -> Tensors {
    return {at::exp(t[0]).sum(1)};
  });
  const auto memory = std::make_shared<ArenaMemory>();
  PlanOptions options;
  options.memory = memory;
  Plan plan(program, {}, options);
  const Tensor sums = at::empty({5});
  plan.bind(0, x.data_ptr());
  plan.bind_outputs({sums.data_ptr()});
  for (const int64_t more : {0, 1 << 10, 4 << 20}) {
    memory->reserve(plan.arena_bytes() + more, at::kCPU);
    const ArenaLease lease({memory});
    std::memset(memory->data(), 0, static_cast<size_t>(memory->bytes()));
    sums.zero_();
    plan.run();
    EXPECT_TRUE(at::equal(at::from_blob(memory->data(), {5, 3}), x.exp())) << more;
    EXPECT_TRUE(at::allclose(sums, x.exp().sum(1))) << more;
  }
}

/// Returns its argument itself, without a schema that says so, while `itself` is true.
bool itself = false;
Tensor maybe_itself(const Tensor& x) { return itself ? x.view(x.sizes()) : x.clone(); }
TORCH_LIBRARY_FRAGMENT(lower_test, m) {
  m.def("maybe_itself(Tensor x) -> Tensor");
  m.impl("maybe_itself", c10::DispatchKey::CPU, TORCH_FN(maybe_itself));
}

/// A plan hands over results that their operators allocated, and copies what is not theirs alone.
TEST(Plan, GivesResultsThatOwnTheirMemory) {
  const Tensor x = at::randn({5, 3}), right = x.clone();
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("lower_test::maybe_itself", "")
                      .typed<Tensor(const Tensor&)>();
  const Program program = record({{"x", Role::input, x, true}}, [&](const Tensors& t) -> Tensors {
    return {op.call(t[0]), at::exp(t[0])};
  });
  PlanOptions options;
  options.gives_results = true;
  Plan plan(program, {}, options);
  const Tensor exp = at::empty({5, 3});
  for (const bool view : {false, true}) {
    itself = view;
    x.copy_(right);
    plan.bind(0, x.data_ptr());
    plan.bind_outputs({nullptr, exp.data_ptr()});
    plan.run();
    ASSERT_TRUE(plan.gives(0));
    EXPECT_FALSE(plan.gives(1)) << "its operator can write into given memory";
    const Tensor given = plan.given(0);
    EXPECT_EQ(given.use_count(), 1U) << "the plan keeps it no longer";
    x.zero_();
    EXPECT_TRUE(at::equal(given, right)) << view;
    EXPECT_TRUE(at::equal(exp, right.exp())) << view;
  }
  itself = false;
}

TEST(Arena, ItsMemoryEndsWithIt) {
  auto memory = std::make_shared<ArenaMemory>();
  memory->reserve(5 << 20, at::kCPU);
  const auto address = [&] {
    const ArenaLease lease({memory});
    return memory->data();
  };
  const char* const first = address();
  EXPECT_EQ(address(), first);  // kept between leases
  unsigned char resident = 0;
  ASSERT_EQ(mincore(const_cast<char*>(first), 1, &resident), 0);
  memory.reset();
  EXPECT_EQ(mincore(const_cast<char*>(first), 1, &resident), -1);  // no longer mapped
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Threads, EveryItemRunsOnceAndErrorsComeBack) {
  for (int threads : {1, 2, 3, 7}) {
    std::vector<std::atomic<int>> seen(50);
    run_parallel(threads, 50, [&](int thread, int item) {
      EXPECT_LT(thread, threads);
      ++seen[static_cast<size_t>(item)];
    });
    for (auto& count : seen) EXPECT_EQ(count, 1);
    EXPECT_THROW(run_parallel(threads, 50,
                              [](int, int item) {
                                if (item == 17) throw Error("[test] planted");
                              }),
                 Error);
  }
}

ptrdiff_t threads_of_process() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return std::distance(begin(all), end(all));
}

// A suite of its own: before it no other test of its process has started threads.
TEST(SerialThreads, WorkStartsNoneAndLeavesTheirNumber) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  const Tensor x = at::randn({8, 3, 16, 16}), w = at::randn({8, 3, 3, 3});
  const ptrdiff_t there = threads_of_process();
  Tensor gradient, product;
  run_serial([&] {
    EXPECT_EQ(at::get_num_threads(), 1);
    const Tensor y = at::conv2d(x, w);
    // oneDNN's backward convolution waits for as many threads as it has asked for.
    gradient =
        std::get<1>(at::convolution_backward(at::ones_like(y), x, w, std::nullopt, {1, 1}, {0, 0},
                                             {1, 1}, false, {0, 0}, 1, {true, true, false}));
    product = at::matmul(at::ones({600, 600}), at::ones({600, 600}));
  });
  EXPECT_EQ(threads_of_process(), there);
  EXPECT_EQ(at::get_num_threads(), 2);
  EXPECT_TRUE(product.eq(600).all().item<bool>());
  const Tensor exact = std::get<1>(at::convolution_backward(
      at::ones({8, 8, 14, 14}, at::kDouble), x.to(at::kDouble), w.to(at::kDouble), std::nullopt,
      {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, {true, true, false}));
  EXPECT_TRUE(at::allclose(gradient.to(at::kDouble), exact, 1e-4, 1e-4));
  EXPECT_THROW(run_serial([] { throw Error("[test] planted"); }), Error);
  EXPECT_EQ(at::get_num_threads(), 2);
  at::set_num_threads(before);
}

TEST(OutVariant, ComputesWhatTheOperatorDoes) {
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({2, 6, 8}), y = at::randn({2, 8, 5});
  const Program program =
      record({{"x", Role::input, x}, {"y", Role::input, y}}, [](const Tensors& t) {
        const Tensor a = at::bmm(t[0], t[1]);
        return Tensors{at::relu(a),
                       a * 3,
                       a + 2,
                       a / 4,
                       at::gelu(a),
                       at::silu(a),
                       at::tanh(a),
                       at::softmax(a, -1),
                       a.transpose(0, 1).clone(at::MemoryFormat::Contiguous),
                       at::mean(a, {1}),
                       at::cat({a, a}, 1),
                       at::addcmul(a, a, a, 0.5),
                       a.to(at::kDouble),
                       at::max_pool2d(a, 2)};
      });
  int found = 0;
  for (const Node& node : program.nodes) {
    const auto variant = find_out_variant(program, node, c10::kCPU);
    if (node.is_view() || !variant) continue;
    ++found;
    ByValue<Tensor> known(program.values.size());
    // Inputs of the node by a run of the whole program up to it.
    Program prefix = program;
    prefix.outputs.clear();
    for_each_value(node.arguments, [&](ValueId id) { prefix.outputs.push_back(id); });
    const Tensors arguments = interpret(prefix, {x, y});
    size_t next = 0;
    for_each_value(node.arguments, [&](ValueId id) { known[id] = arguments[next++]; });
    auto value = [&](ValueId id) {
      const Value& v = program.value(id);
      return v.role == Role::constant ? v.constant : known[id];
    };
    Stack plain = make_stack(node.arguments, value);
    node.op.callBoxed(&plain);
    Stack stack = variant->adapt(make_stack(node.arguments, value));
    Tensors out;
    for_each_value(node.results, [&](ValueId id) {
      const Value& v = program.value(id);
      out.push_back(at::full({v.numel()}, 77, at::TensorOptions().dtype(v.dtype)).view(v.sizes));
    });
    if (variant->op.schema().name() == "aten::copy_") {
      stack.insert(stack.begin(), IValue(out[0]));
      stack.emplace_back(false);
    } else {
      for (const Tensor& t : out) stack.emplace_back(t);
    }
    variant->op.callBoxed(&stack);
    for (size_t r = 0; r < out.size(); ++r)
      EXPECT_TRUE(at::allclose(out[r], plain[r].toTensor(), 1e-6, 1e-7)) << node.name();
  }
  EXPECT_GE(found, 13);
}

Ensemble with_inputs(const Network& net, Ensemble ensemble, const Ensemble& other) {
  for (size_t i : net.indices(true)) ensemble.tensors[i] = other.tensors[i];
  return ensemble;
}

/// Every network, every number of ranges: right, on new inputs too, and with new weights.
class Ranges : public ::testing::TestWithParam<std::string> {};

TEST_P(Ranges, GiveTheAnswersOfTheSeparateModels) {
  at::NoGradGuard no_grad;
  const Target& target = find_target(GetParam());
  const Sweep& sweep =
      target.sweeps.count("ci") ? target.sweeps.at("ci") : target.sweeps.at("quick");
  const Network net = target.network(sweep.shapes.at(0));
  if (net.random) GTEST_SKIP() << "draws random numbers: never split into ranges";
  const Ensemble first = generate(net, 5, at::kFloat, at::kCPU, 21);
  const Ensemble second = generate(net, 5, at::kFloat, at::kCPU, 22);
  const Ensemble mixed = with_inputs(net, first, second);
  const Program single = record_single(net, first);
  const double tolerance =
      std::max(target.tolerance_for(at::kFloat),
               4 * max_relative_error(separate(single, second), in_double(single, second)));
  for (int ranges : {1, 2, 3, 5}) {
    CompileOptions options;
    options.tune = false;
    options.threads = 2;
    options.ranges = ranges;
    auto model = compile(net, first, options);
    EXPECT_EQ(model->ranges(), ranges);
    const WideFunction run = as_function(*model, net);
    for (const Ensemble* e : {&first, &mixed, &second, &first})
      EXPECT_LE(max_relative_error(run(*e), in_double(single, *e)), tolerance) << ranges;
  }
}

std::vector<std::string> all_targets() {
  std::vector<std::string> names;
  for (const Target* t : targets()) names.push_back(t->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, Ranges, ::testing::ValuesIn(all_targets()),
                         [](const auto& one) { return one.param; });

Network small() {
  Network net;
  net.name = "small";
  net.tensors = {{"w", Role::parameter, {4, 6}}, {"x", Role::input, {3, 6}}};
  net.forward = [](const Tensors& t) { return Tensors{at::relu(at::linear(t[1], t[0]))}; };
  net.instantiate = [net](const Tensors& weights) { return bind(net, weights); };
  return net;
}

TEST(CompiledModel, ResultsHeldByTheCallerStayAsTheyAre) {
  at::NoGradGuard no_grad;
  const Network net = small();
  const Ensemble ensemble = generate(net, 4, at::kFloat, at::kCPU, 1);
  CompileOptions options;
  options.ranges = 2;
  auto model = compile(net, ensemble, options);
  const Tensor x = ensemble.tensors[1];
  const Tensors held = model->run({x});
  const Tensor view = model->run({x * 2})[0].select(0, 1);  // only a view of it is held
  const Tensor held_before = held[0].clone(), view_before = view.clone();
  model->run({x * 3});
  model->run({x * 4});
  EXPECT_TRUE(held[0].equal(held_before));
  EXPECT_TRUE(view.equal(view_before));
  const void* address = model->run({x})[0].data_ptr();
  EXPECT_EQ(model->run({x})[0].data_ptr(), address) << "memory nobody holds is used again";
}

/// What is the same for all models is computed once; what it makes has a row for each model of a
/// range, and ranges may be of two sizes.
TEST(CompiledModel, SharedWorkFitsRangesOfEachSize) {
  at::NoGradGuard no_grad;
  Network net;
  net.name = "loss";
  net.tensors = {{"w", Role::parameter, {3, 6}}, {"x", Role::input, {4, 6}}};
  net.tensors.push_back({"y", Role::input, {4}, at::kLong});
  net.forward = [](const Tensors& t) {
    return Tensors{at::nll_loss(at::log_softmax(at::linear(t[1], t[0]), 1), t[2])};
  };
  for (const int n : {2, 5, 7, 11}) {
    Ensemble e = generate(net, n, at::kFloat, at::kCPU, 3);
    for (const size_t i : {size_t{1}, size_t{2}}) {
      e.shared[i] = true;
      e.tensors[i] = e.tensors[i].select(0, 0).clone();
    }
    e.tensors[2] = at::tensor({2, 0, -100, 1}, at::kLong);  // one row is left out
    for (const int ranges : {1, 2, 3}) {
      CompileOptions options;
      options.threads = 2;
      options.ranges = ranges;
      const auto model = compile(net, e, options);
      const Tensor got = model->run({e.tensors[1], e.tensors[2]})[0];
      for (int i = 0; i < n; ++i) {
        const Tensor own = net.forward(e.model(i))[0];
        EXPECT_NEAR(got[i].item<double>(), own.item<double>(), 1e-5) << n << " " << ranges;
      }
    }
  }
}

TEST(CompiledModel, WhatIsFarOffIsTriedWholeAndOneByOneOnly) {
  at::NoGradGuard no_grad;
  const Network net = small();
  const Ensemble ensemble = generate(net, 16, at::kFloat, at::kCPU, 1);
  CompileOptions options;
  options.threads = 2;
  options.far_off_ns = 1;
  const int ranges = compile(net, ensemble, options)->ranges();
  EXPECT_TRUE(ranges == 1 || ranges == 16) << ranges;
}

TEST(CompiledModel, RefusesOtherInputsByName) {
  at::NoGradGuard no_grad;
  const Network net = small();
  const Ensemble ensemble = generate(net, 4, at::kFloat, at::kCPU, 1);
  auto model = compile(net, ensemble, {});
  try {
    model->run({at::randn({4, 3, 7})});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[small] input x: got f32[4, 3, 7], expected f32[4, 3, 6]; try compiling again "
                 "for other sizes");
  }
}

TEST(CompiledModel, ModesWithoutALoweringSaySo) {
  const Network net = small();
  const Ensemble ensemble = generate(net, 2, at::kFloat, at::kCPU, 1);
  CompileOptions options;
  options.mode = Mode::reduce_overhead;
  EXPECT_THROW(compile(net, ensemble, options), Unsupported);
  EXPECT_THROW(parse_mode("fast"), Error);
}

}  // namespace
}  // namespace wide::lower_test
