#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/compile.h"
#include "engine/error.h"
#include "engine/model/dynamic_portable.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

using Body = std::function<Tensor(const Tensor& x, int64_t batch)>;

Program recorded(int64_t batch, const Body& body) {
  Program program = record({{"x", Role::input, at::ones({batch, 3}), false}},
                           [&](const Tensors& bound) { return Tensors{body(bound[0], batch)}; });
  program.regions.clear();  // a wide program has none
  return program;
}

DynamicBatch formulas_of(const Body& body, const std::vector<int64_t>& batches = {4, 7, 11}) {
  std::vector<Program> programs;
  for (const int64_t batch : batches) programs.push_back(recorded(batch, body));
  return batch_formulas({&programs[0], &programs[1], &programs[2]}, batches);
}

std::string refusal(const Body& body) {
  try {
    formulas_of(body);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Tensor ends_cut_off(const Tensor& x, int64_t batch) {
  return at::zeros({2, batch + 1}) + x.view({3 * batch}).narrow(0, 1, 3 * batch - 2).sum();
}

TEST(DynamicBatch, ProgramsFollowTheBatchSize) {
  const DynamicBatch found = formulas_of(ends_cut_off);
  EXPECT_EQ(found.dimension, 0);
  const Program base = recorded(4, ends_cut_off);
  for (const int64_t batch : {1, 2, 9, 100})
    EXPECT_EQ(at_batch(base, found, batch).text(), recorded(batch, ends_cut_off).text());
  std::set<BatchFormula> seen;
  for (const auto& [place, formulas] : found.arguments)
    seen.insert(formulas.begin(), formulas.end());
  EXPECT_EQ(seen, (std::set<BatchFormula>{{0, 2}, {1, 1}, {3, 0}, {3, -1}}));
}

TEST(DynamicBatch, OtherDependencesAreRefusedWithTheReason) {
  EXPECT_EQ(refusal([](const Tensor& x, int64_t b) { return at::zeros({b * b}) + x.sum(); }),
            "argument size of aten::zeros is 16, 49, 121 in batches of 4, 7, 11");
  EXPECT_EQ(refusal([](const Tensor& x, int64_t b) { return b == 7 ? x.relu() : x.sigmoid(); }),
            "operator 0 is aten::sigmoid in batches of 4, aten::relu in those of 7");
  EXPECT_EQ(
      refusal([](const Tensor& x, int64_t b) { return b == 11 ? x.relu().relu() : x.relu(); }),
      "batches of 4 take 1 operators, those of 11 take 2");
  EXPECT_EQ(refusal([](const Tensor& x, int64_t b) { return x.relu() * (1.0 / double(b)); }),
            "argument other of aten::mul.Scalar depends on the size of the batch");
  EXPECT_EQ(refusal([](const Tensor& x, int64_t b) { return x.sum(b == 7 ? 0 : 1); }),
            "argument dim of aten::sum.dim_IntList depends on the size of the batch");
  EXPECT_EQ(refusal([](const Tensor& x, int64_t b) {
              const Tensor y = x.relu(), z = x.relu();
              return (b == 7 ? y + y : y + z) + z;
            }),
            "argument other of aten::add.Tensor uses other tensors in batches of 7 than in those "
            "of 4");
}

TEST(DynamicBatch, RangesHaveTheirEnds) {
  const auto range = [](int64_t least, int64_t most) {
    return range_around(8, [=](int64_t b) { return b >= least && b <= most; });
  };
  EXPECT_EQ(range(2, 64)->least, 2);
  EXPECT_EQ(range(2, 64)->most, 64);
  EXPECT_EQ(range(1, INT64_MAX)->least, 1);
  EXPECT_FALSE(range(1, INT64_MAX)->most);
  EXPECT_FALSE(range(8, 8));
}

/// Three models of `body` with a weight [3] each, and the program of them.
Portable made_of(const Body& body, int64_t batch) {
  Network network;
  network.name = "body";
  network.tensors = {{"x", Role::input, {batch, 3}}, {"w", Role::parameter, {3}}};
  network.forward = [body, batch](const Tensors& bound) {
    return Tensors{body(bound[0] * bound[1], batch)};
  };
  const Ensemble models = generate(network, 3, at::kFloat, c10::kCPU, 1);
  return make_portable(network, record_single(network, models), models, {});
}

TEST(DynamicBatch, BatchesOfOneAreCheckedApart) {
  const auto range_of = [](const Body& body, int64_t batch) {
    const Portable made =
        dynamic_portable(batch, BatchRange{}, [&](int64_t b) { return made_of(body, b); });
    return batch_text(made, batch);
  };
  const Body same = [](const Tensor& x, int64_t) { return x + 1; };
  const Body squeezed = [](const Tensor& x, int64_t) { return x.squeeze(); };
  EXPECT_EQ(range_of(same, 4), "any batch");
  EXPECT_EQ(range_of(same, 1), "any batch");
  EXPECT_EQ(range_of(squeezed, 4), "batches of 2 or more");
  EXPECT_EQ(range_of(squeezed, 1), "batches of 1 alone: larger ones are computed in another way");
  const Body broken = [](const Tensor& x, int64_t b) {
    return b == 7 ? throw Error("no batch of 7") : x;
  };
  EXPECT_EQ(range_of(broken, 4), "batches of 4 alone: those of 7 fail: no batch of 7");
}

TEST(DynamicBatch, RegisteredNetworksGiveTheSameProgramsAsTheirOwn) {
  for (const char* name : {"mlp", "lenet", "tiny_ts"}) {
    SCOPED_TRACE(name);
    const Target& target = find_target(name);
    const auto at = [&](int64_t batch) {
      Shape shape = target.sweeps.at("ci").shapes.front();
      const Network network = target.network(shape.set("B", batch));
      const Ensemble models = generate(network, 2, at::kFloat, c10::kCPU, 3);
      return make_portable(network, record_single(network, models), models, {});
    };
    const Portable dynamic = dynamic_portable(3, BatchRange{}, at);
    ASSERT_TRUE(dynamic.batch.has_value()) << dynamic.fixed_because;
    EXPECT_EQ(program_at(dynamic, 6).text(), at(6).program.text());
  }
}

}  // namespace
}  // namespace wide
