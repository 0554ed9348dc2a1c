#include <gtest/gtest.h>

#include "engine/train/trainer.h"
#include "tests/engine/train/subjects.h"

namespace wide::planning_test {
namespace {

using namespace training;

TEST(Trainer, PlansAgainForFewerModels) {
  const Subject s = mlp();
  TrainerOptions o;
  o.n = 9;
  o.threads = 2;
  const auto begin = start(s, 9, at::kFloat);
  const auto data = [&](int64_t t) { return batch(s, 9, 6, at::kFloat, 40 + uint64_t(t)); };
  Trainer trainer(forms(s), {{"x"}}, begin, o);
  const auto train = [&](Trainer& some) {
    for (int64_t t = 0; t < 6; ++t) {
      some.step(data(t));
      some.evaluate(data(t));
      if (t == 0) some.stop(4);
      if (t == 2)
        for (const int64_t model : {0, 1, 3, 5, 8}) some.stop(model);
    }
  };
  train(trainer);
  // 9, 8 are alike; 3 are far fewer. Evaluations are not looked at again.
  const auto count = [plan = trainer.plan()](const std::string& word) {
    int64_t found = 0;
    for (size_t at = 0; (at = plan.find(word, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("\"models\":9"), 2);
  EXPECT_EQ(count("\"models\":3"), 1);
  EXPECT_EQ(count("\"models\":"), 3);
  // A run with its plan, and one that goes on in the middle of it, choose the same at each time.
  o.plan = trainer.plan();
  Trainer again(forms(s), {{"x"}}, begin, o);
  train(again);
  EXPECT_EQ(again.plan(), trainer.plan());
  expect_same_bits(again.state().tensors, trainer.state().tensors);
  Trainer resumed(forms(s), {{"x"}}, begin, o);
  resumed.step(data(0));
  resumed.stop(4);
  for (int64_t t = 1; t < 3; ++t) resumed.step(data(t));
  for (const int64_t model : {0, 1, 3, 5, 8}) resumed.stop(model);
  Trainer other(forms(s), {{"x"}}, begin, o);
  TrainerState state = resumed.state();
  state.plan = trainer.plan();
  other.load_state(state);
  for (int64_t t = 3; t < 6; ++t) other.step(data(t));
  EXPECT_EQ(other.plan(), trainer.plan());
  expect_same_bits(other.state().tensors, trainer.state().tensors);
  // Where bits depend on nothing there is nothing to choose.
  TrainerOptions exact = o;
  exact.exact = true;
  exact.plan.clear();
  Trainer fixed(forms(s), {{"x"}}, begin, exact);
  fixed.step(data(0));
  const std::string planned = fixed.plan();
  for (const int64_t model : {0, 1, 3, 5, 8}) fixed.stop(model);
  fixed.step(data(1));
  EXPECT_EQ(fixed.plan(), planned);
}

TEST(Trainer, RunsWhatWasChosen) {
  const Subject s = mlp();
  for (const int64_t n : {5, 24, 37}) {
    TrainerOptions o;
    o.n = n;
    o.threads = 2;
    const auto begin = start(s, n, at::kFloat);
    Trainer trainer(forms(s), {{"x"}}, begin, o);
    const Batch b = batch(s, n, 6, at::kFloat, 40);
    trainer.step(b);
    o.plan = trainer.plan();
    Trainer told(forms(s), {{"x"}}, begin, o);  // has no other choice to run by mistake
    told.step(b);
    EXPECT_EQ(trainer.memory().models_at_a_time, told.memory().models_at_a_time) << n;
    EXPECT_EQ(trainer.memory().range_bytes, told.memory().range_bytes) << n;
    expect_same_bits(trainer.state().tensors, told.state().tensors);
  }
}

TEST(Trainer, KnowsNothingOfASizeThatCannotBeRecorded) {
  const Subject s = mlp();
  TrainerOptions o;
  o.n = 3;
  o.tune = false;
  Trainer trainer(forms(s), {{"x"}}, start(s, 3, at::kFloat), o);
  const Batch good = batch(s, 3, 6, at::kFloat, 40);
  Batch bad = good;
  bad.inputs[0] = {at::ones({3, 6, 9})};  // rows of 9, where the network takes 6
  EXPECT_ANY_THROW(trainer.prepare(bad));
  EXPECT_EQ(trainer.memory().range_bytes, 0);
  EXPECT_ANY_THROW(trainer.step(bad));
  trainer.step(good);
  EXPECT_GT(trainer.memory().range_bytes, 0);
}

TEST(Trainer, HasFewerModelsAtATimeWhereMemoryIsShort) {
  const Subject s = mlp();
  TrainerOptions o;
  o.n = 32;
  o.threads = 2;
  o.tune = false;  // else as many as are fastest
  const auto begin = start(s, o.n, at::kFloat);
  const Batch b = batch(s, o.n, 6, at::kFloat, 40);
  const auto memory = [&](int64_t limit) {
    o.memory_limit = limit;
    Trainer trainer(forms(s), {{"x"}}, begin, o);
    trainer.step(b);
    return trainer.memory();
  };
  const TrainerMemory free = memory(0);
  EXPECT_EQ(free.models_at_a_time, 16);
  const int64_t limit = free.range_bytes * free.threads / 3;
  const TrainerMemory held = memory(limit);
  EXPECT_LE(held.range_bytes * held.threads, limit);
  EXPECT_LT(held.models_at_a_time, 16);
  EXPECT_EQ(memory(1).models_at_a_time, 1);  // fewer there are not
}

}  // namespace
}  // namespace wide::planning_test
