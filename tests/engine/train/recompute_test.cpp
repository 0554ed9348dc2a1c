// What a memory limit has computed a second time: the same bits from less memory.
#include "engine/train/recompute.h"

#include <fmt/format.h>

#include "engine/train/trainer.h"
#include "tests/engine/train/subjects.h"

namespace wide::recompute_test {
namespace {

using namespace training;

/// A long chain without a way around it.
Subject deep(int64_t layers, int64_t width) {
  Subject s{"deep", {6}, {weight("in.weight", {width, 6}), weight("in.bias", {width})}, {}};
  for (int64_t k = 0; k < layers; ++k) {
    s.tensors.push_back(weight(fmt::format("{}.weight", k), {width, width}));
    s.tensors.push_back(weight(fmt::format("{}.bias", k), {width}));
  }
  s.tensors.push_back(weight("head.weight", {5, width}));
  s.forward = [](const Tensor& x, const Tensors& w, bool) {
    Tensor h = x;
    for (size_t k = 0; k + 1 < w.size(); k += 2) h = at::gelu(at::linear(h, w[k], w[k + 1]));
    return at::linear(h, w.back());
  };
  return s;
}

/// Convolutions with batch norm and dropout, every second one with a way around it.
Subject blocks() {
  constexpr int64_t kBlocks = 8, kChannels = 5;
  constexpr size_t kEach = 6;
  Subject s{"blocks", {kChannels, 7, 7}, {}, {}};
  for (int64_t k = 0; k < kBlocks; ++k) {
    const auto name = [&](const char* what) { return fmt::format("{}.{}", k, what); };
    for (const TensorSpec& spec :
         {weight(name("conv"), {kChannels, kChannels, 3, 3}), gain(name("bn.weight"), kChannels),
          weight(name("bn.bias"), {kChannels}),
          moving(name("bn.running_mean"), kChannels, Fill::normal),
          moving(name("bn.running_var"), kChannels, Fill::positive),
          TensorSpec{
              name("bn.num_batches_tracked"), Role::buffer, {}, at::kLong, Fill::integers, 5.0}})
      s.tensors.push_back(spec);
  }
  s.tensors.push_back(weight("head.weight", {5, kChannels}));
  s.forward = [](const Tensor& x, const Tensors& w, bool train) {
    Tensor h = x;
    for (size_t at = 0; at + 1 < w.size(); at += kEach) {
      if (train) w[at + 5].add_(1);
      Tensor y = at::conv2d(h, w[at], {}, 1, 1);
      y = at::batch_norm(y, w[at + 1], w[at + 2], w[at + 3], w[at + 4], train, 0.1, 1e-5, false);
      y = at::dropout(at::relu(y), 0.2, train);
      h = at % (2 * kEach) == 0 ? y : h + y;
    }
    return at::linear(h.mean({2, 3}), w.back());
  };
  return s;
}

struct Trained {
  std::map<std::string, Tensor> state;
  Tensors losses;
  TrainerMemory memory;
  std::string plan;
};

Trained trained(const Subject& s, TrainerOptions o, int64_t limit, int64_t rows) {
  o.memory_limit = limit;
  Trainer trainer(forms(s), {{"x"}}, start(s, o.n, at::kFloat), o);
  Trained run;
  for (uint64_t t = 0; t < 5; ++t)
    run.losses.push_back(trainer.step(batch(s, o.n, rows, at::kFloat, 40 + t)).losses);
  run.state = trainer.state().tensors;
  run.memory = trainer.memory();
  run.plan = trainer.plan();
  return run;
}

void expect_same_run(const Trained& a, const Trained& b) {
  for (size_t t = 0; t < a.losses.size(); ++t) EXPECT_TRUE(a.losses[t].equal(b.losses[t])) << t;
  expect_same_bits(a.state, b.state);
}

TrainerOptions options(int64_t n, bool exact) {
  TrainerOptions o;
  o.n = n;
  o.exact = exact;
  o.tune = false;
  o.threads = 1;
  return o;
}

TEST(Recompute, KeepsLessAndEveryBit) {
  for (const Subject& s : {deep(24, 17), blocks(), transformer(), lstm(), batch_norm_net()}) {
    const int64_t rows = 61;
    const Trained free = trained(s, options(3, true), 0, rows);
    EXPECT_EQ(free.memory.recomputed, 0) << s.name;
    EXPECT_EQ(free.memory.saved_bytes, 0) << s.name;
    const Trained held = trained(s, options(3, true), 1, rows);
    expect_same_run(free, held);
    RecordProperty(s.name, fmt::format("{} of {} bytes, {} calls twice", held.memory.range_bytes,
                                       free.memory.range_bytes, held.memory.recomputed));
    EXPECT_EQ(free.memory.range_bytes - held.memory.range_bytes, held.memory.saved_bytes) << s.name;
    if (s.name != "deep" && s.name != "blocks") continue;
    EXPECT_GT(held.memory.recomputed, 0) << s.name;
    EXPECT_LT(held.memory.range_bytes * 9, free.memory.range_bytes * (s.name == "deep" ? 4 : 5))
        << s.name;
    // No more than is asked.
    const int64_t limit = free.memory.range_bytes * 3 / 4;
    const Trained some = trained(s, options(3, true), limit, rows);
    expect_same_run(free, some);
    EXPECT_LE(some.memory.range_bytes, limit) << s.name;
    EXPECT_LT(some.memory.recomputed, held.memory.recomputed) << s.name;
    EXPECT_GT(some.memory.recomputed, 0) << s.name;
  }
}

TEST(Recompute, OfSeveralModelsAtATime) {
  for (const Subject& s : {deep(24, 17), blocks()}) {
    TrainerOptions o = options(7, false);
    o.models_at_a_time = 3;
    o.threads = 2;
    const Trained free = trained(s, o, 0, 23);
    o.plan = free.plan;
    const int64_t limit = free.memory.range_bytes * 5 / 4;  // of both threads
    const Trained held = trained(s, o, limit, 23);
    expect_same_run(free, held);
    EXPECT_EQ(held.memory.models_at_a_time, free.memory.models_at_a_time);
    EXPECT_GT(held.memory.recomputed, 0) << s.name;
    EXPECT_LT(held.memory.range_bytes * 4, free.memory.range_bytes * 3) << s.name;
  }
}

TEST(Recompute, ComesAfterFewerModelsAtATime) {
  const Subject s = deep(24, 17);
  const int64_t one = trained(s, options(1, false), 0, 23).memory.range_bytes;
  TrainerOptions o = options(8, false);
  o.threads = 2;
  const TrainerMemory few = trained(s, o, one * 2, 23).memory;
  EXPECT_EQ(few.models_at_a_time, 1);
  EXPECT_EQ(few.recomputed, 0);
  const TrainerMemory less = trained(s, o, one, 23).memory;
  EXPECT_EQ(less.models_at_a_time, 1);
  EXPECT_GT(less.recomputed, 0);
  EXPECT_LE(less.range_bytes * 2, one);
  const TrainerMemory least = trained(s, o, 1, 23).memory;  // cannot be met
  EXPECT_EQ(least.models_at_a_time, 1);
  EXPECT_GE(least.recomputed, less.recomputed);
}

TEST(Recompute, IsRightAgainstSeparateModels) {
  for (const Subject& s : {deep(24, 7), blocks()}) {
    TrainerOptions o = options(3, true);
    o.memory_limit = 1;
    Trainer trainer(forms(s), {{"x"}}, start(s, o.n, at::kDouble), o);
    const StepCheck check = trainer.check(batch(s, o.n, 11, at::kDouble, 40), o.n);
    EXPECT_TRUE(check.pass) << s.name << ": " << check.failure;
    EXPECT_GT(trainer.memory().recomputed, 0) << s.name;
  }
}

/// Memory that is short has programs recorded on zeros; what cannot be computed of zeros is
/// recorded of the models' own numbers after all.
TEST(Recompute, OperatorsThatRefuseZeros) {
  constexpr int64_t kSize = 6;
  const Subject s{"inverse",
                  {kSize},
                  {weight("mixed", {kSize, kSize}), weight("head.weight", {5, kSize})},
                  [](const Tensor& x, const Tensors& w, bool) {
                    return at::linear(at::linear(x, at::linalg_inv(w[0])), w[1]);
                  }};
  EXPECT_ANY_THROW(at::linalg_inv(at::zeros({kSize, kSize})));
  const Trained free = trained(s, options(3, true), 0, 13);
  const Trained held = trained(s, options(3, true), 1, 13);
  expect_same_run(free, held);
}

}  // namespace
}  // namespace wide::recompute_test
