// A check that finds nothing wrong proves nothing: known faults, planted into strategies, must be
// found by it.
#include "engine/check/check.h"
#include "tests/properties/harness.h"

namespace wide::testing::plants_test {
namespace {

/// A claimed call of a program whose inputs are all bound, ready to be computed by any strategy.
struct Site {
  const std::vector<Argument>* results = nullptr;
  Claimed claimed;
};

template <class Calls>
std::optional<Site> find_in(const Target& target, const Program& program, const Calls& calls) {
  for (const auto& call : calls)
    for (const Claim& claim : target.claims) {
      if (call.op.schema().operator_name().name != claim.op) continue;
      if (auto claimed = claim.match(CallView(program, call.arguments)))
        return Site{&call.results, std::move(*claimed)};
    }
  return std::nullopt;
}

using Plant = std::function<Tensors(const Strategy&, const std::any&, WideCall)>;

/// `target` at `shape`, computed by its strategy with a fault planted, judged by the check.
class Planted {
 public:
  Planted(const std::string& name, Shape shape, int64_t n)
      : target_(find_target(name)),
        network_(target_.network(shape)),
        ensemble_(generate(network_, n, at::kFloat, at::kCPU, 5)),
        single_(record_one(network_, ensemble_.model(0))) {
    std::vector<Region> harmless;
    for (const Region& region : single_.regions)
      if (!region.mutates) harmless.push_back(region);
    auto site = find_in(target_, single_, harmless);
    if (!site) site = find_in(target_, single_, single_.nodes);
    WIDE_ASSERT(site, "{} claims nothing", name);
    site_ = *site;
    results_ = *site_.results;
  }

  Correctness check(const std::string& strategy, const Plant& plant, bool masks_shared = false) {
    const Strategy* s = target_.strategy(strategy);
    WIDE_ASSERT(s != nullptr, "no strategy {}", strategy);
    return wide::check(
        network_, single_, ensemble_, [&](const Ensemble& e) { return run(*s, plant, e); },
        target_.tolerance_for(at::kFloat), masks_shared);
  }

 private:
  Tensors run(const Strategy& strategy, const Plant& plant, const Ensemble& ensemble) {
    const at::NoGradGuard guard;
    WideCall call;
    call.n = ensemble.n;
    for (const ValueId id : site_.claimed.inputs) {
      const auto at = std::find(single_.bound.begin(), single_.bound.end(), id);
      const bool present = id != kNone && at != single_.bound.end();
      call.inputs.push_back(
          present ? ensemble.tensors[static_cast<size_t>(at - single_.bound.begin())] : Tensor());
      call.shared.push_back(false);
    }
    const Tensors made = plant(strategy, site_.claimed.config, call);
    std::map<ValueId, Tensor> values;
    for (size_t i = 0; i < results_.size(); ++i) {
      const auto& map = site_.claimed.results;
      const int from = map.empty() ? static_cast<int>(i) : i < map.size() ? map[i] : -1;
      for (const ValueId id : results_[i].values)
        if (from >= 0 && static_cast<size_t>(from) < made.size())
          values[id] = made[static_cast<size_t>(from)];
    }
    Tensors out;
    for (const ValueId id : single_.outputs) out.push_back(values.at(id));
    for (const Update& update : single_.updates) out.push_back(values.at(update.value));
    return out;
  }

  const Target& target_;
  Network network_;
  Ensemble ensemble_;
  Program single_;
  Site site_;
  std::vector<Argument> results_;
};

struct Place {
  const char* target;
  Shape shape;
  const char* strategy;
};

/// Where faults of weights are planted; B is 4, so that N = 4 lets axes be mistaken.
std::vector<Place> places() {
  return {{"linear", {{"B", 4}, {"D", 6}}, "einsum"},
          {"conv2d", {{"B", 4}, {"C", 3}, {"k", 3}, {"H", 5}, {"W", 6}}, "grouped"},
          {"conv1d", {{"B", 4}, {"C", 3}, {"k", 3}, {"L", 8}}, "unfold"},
          {"conv3d", {{"B", 4}, {"C", 3}, {"k", 2}, {"D", 3}, {"H", 4}, {"W", 3}}, "direct"},
          {"convtranspose2d",
           {{"B", 4}, {"C", 3}, {"k", 3}, {"stride", 2}, {"H", 3}, {"W", 4}},
           "grouped"},
          {"layernorm", {{"B", 4}, {"T", 3}, {"D", 5}}, "wide"},
          {"batchnorm1d", {{"B", 4}, {"C", 3}, {"L", 5}}, "wide"},
          {"batchnorm2d", {{"B", 4}, {"C", 3}, {"H", 2}, {"W", 3}}, "one_pass"},
          {"layernorm", {{"B", 4}, {"T", 3}, {"D", 5}}, "one_pass"},
          {"instancenorm2d", {{"B", 4}, {"C", 3}, {"H", 2}, {"W", 3}}, "one_pass"},
          {"groupnorm", {{"B", 4}, {"C", 6}, {"H", 2}, {"W", 3}, {"groups", 2}}, "fused"}};
}

void expect_found(const Plant& plant) {
  for (const Place& place : places()) {
    SCOPED_TRACE(place.target);
    Planted planted(place.target, place.shape, 4);
    const Correctness honest = planted.check(
        place.strategy,
        [](const Strategy& s, const std::any& c, const WideCall& w) { return s.run(c, w); });
    EXPECT_TRUE(honest.pass) << honest.failure;
    const Correctness found = planted.check(place.strategy, plant);
    EXPECT_FALSE(found.pass);
    EXPECT_FALSE(found.failure.empty());
  }
}

TEST(Plants, WeightOfTheNextModel) {
  expect_found([](const Strategy& s, const std::any& c, WideCall call) {
    call.inputs[1] = call.inputs[1].roll(1, 0);
    return s.run(c, call);
  });
}

TEST(Plants, BiasOfModelZeroForAll) {
  expect_found([](const Strategy& s, const std::any& c, WideCall call) {
    call.inputs[2] = call.inputs[2].slice(0, 0, 1).expand_as(call.inputs[2]);
    return s.run(c, call);
  });
}

TEST(Plants, BatchTakenForModels) {
  expect_found([](const Strategy& s, const std::any& c, WideCall call) {
    call.inputs[0] = call.inputs[0].transpose(0, 1);
    return s.run(c, call);
  });
}

TEST(Plants, BatchAndModelsSwappedThereAndBack) {
  // Right in shape and nearly right in kind: every sample meets the weights of its own index.
  expect_found([](const Strategy& s, const std::any& c, WideCall call) {
    call.inputs[0] = call.inputs[0].transpose(0, 1).contiguous();
    Tensors made = s.run(c, call);
    for (Tensor& t : made)
      if (t.dim() > 2) t = t.transpose(0, 1);
    return made;
  });
}

TEST(Plants, MeanOverModelsMixedIn) {
  expect_found([](const Strategy& s, const std::any& c, WideCall call) {
    call.inputs[0] = call.inputs[0] + call.inputs[0].mean(0, true) * 0.01;
    return s.run(c, call);
  });
}

TEST(Plants, NumberOfOneModelLeaksOnlyWhenItIsNotFinite) {
  // The values are right; only isolation can tell.
  expect_found([](const Strategy& s, const std::any& c, WideCall call) {
    call.inputs[0] = call.inputs[0] + call.inputs[0].sum() * 0.0;
    return s.run(c, call);
  });
}

TEST(Plants, TapsOfAConvolutionReversed) {
  // What a convolution and its transpose differ by, on images that hide it in no shape.
  const Shape cube{{"B", 2}, {"C", 3}, {"k", 3}, {"D", 3}, {"H", 4}, {"W", 5}};
  const Shape image{{"B", 2}, {"C", 3}, {"k", 3}, {"stride", 2}, {"H", 4}, {"W", 5}};
  for (const char* strategy : {"direct", "grouped"})
    for (const auto& [name, shape] : {std::pair{"conv3d", cube}, {"convtranspose2d", image}}) {
      SCOPED_TRACE(name);
      Planted planted(name, shape, 3);
      const auto plant = [](const Strategy& s, const std::any& c, WideCall call) {
        call.inputs[1] = call.inputs[1].flip({-1});
        return s.run(c, call);
      };
      EXPECT_FALSE(planted.check(strategy, plant).pass);
    }
}

void expect_stale_statistics_found(const std::string& name, const Shape& shape) {
  SCOPED_TRACE(name);
  Planted planted(name, shape, 3);
  for (const char* strategy : {"one_pass", "wide"}) {
    const auto honest = [](const Strategy& s, const std::any& c, const WideCall& w) {
      return s.run(c, w);
    };
    const Correctness right = planted.check(strategy, honest);
    EXPECT_TRUE(right.pass) << right.failure;
    for (const size_t stale : {size_t{3}, size_t{4}}) {
      const auto plant = [&](const Strategy& s, const std::any& c, const WideCall& call) {
        Tensors made = s.run(c, call);
        made[stale] = call.inputs[stale].clone();
        return made;
      };
      EXPECT_FALSE(planted.check(strategy, plant).pass) << stale;
    }
    const auto of_all = [](const Strategy& s, const std::any& c, const WideCall& call) {
      Tensors made = s.run(c, call);
      made[3] = made[3].mean(0, true).expand_as(made[3]);
      return made;
    };
    EXPECT_FALSE(planted.check(strategy, of_all).pass);
  }
}

TEST(Plants, StaleRunningStatistics) {
  expect_stale_statistics_found("batchnorm1d", {{"B", 4}, {"C", 3}, {"L", 5}, {"train", 1}});
  expect_stale_statistics_found("batchnorm2d",
                                {{"B", 4}, {"C", 3}, {"H", 2}, {"W", 3}, {"train", 1}});
}

TEST(Plants, WeightsOfModelZeroInRmsNorm) {
  Planted planted("rmsnorm", {{"B", 4}, {"T", 3}, {"D", 5}}, 3);
  for (const char* strategy : {"one_pass", "batched"}) {
    const auto honest = [](const Strategy& s, const std::any& c, const WideCall& w) {
      return s.run(c, w);
    };
    const Correctness right = planted.check(strategy, honest);
    EXPECT_TRUE(right.pass) << right.failure;
    const auto plant = [](const Strategy& s, const std::any& c, WideCall call) {
      call.inputs[1] = call.inputs[1].slice(0, 0, 1).expand_as(call.inputs[1]);
      return s.run(c, call);
    };
    EXPECT_FALSE(planted.check(strategy, plant).pass);
  }
}

TEST(Plants, BiasOfModelZeroInModulation) {
  const Target& target = find_target("ada_layer_norm_zero_single");
  const Network network = target.network({{"B", 4}, {"T", 3}, {"D", 5}, {"E", 2}});
  const Ensemble ensemble = generate(network, 3, at::kFloat, at::kCPU, 5);
  const Program single = record_one(network, ensemble.model(0));
  for (const char* strategy : {"one_pass", "fused"})
    for (const bool planted : {false, true}) {
      const auto run = [&](const Ensemble& given) {
        const at::NoGradGuard guard;
        Ensemble e = given;
        if (planted) e.tensors[3] = e.tensors[3].slice(0, 0, 1).expand_as(e.tensors[3]);
        return wide_models(single, e, {{target.name, strategy}});
      };
      const Correctness c =
          wide::check(network, single, ensemble, run, target.tolerance_for(at::kFloat));
      EXPECT_EQ(c.pass, !planted) << c.failure;
    }
}

TEST(Plants, IndicesOfTheNextModel) {
  for (const char* strategy : {"rows", "indexed", "gather"}) {
    Planted planted("embedding", {{"B", 4}, {"T", 3}, {"V", 11}, {"D", 2}}, 3);
    const auto plant = [](const Strategy& s, const std::any& c, WideCall call) {
      call.inputs[0] = call.inputs[0].roll(1, 0);
      return s.run(c, call);
    };
    EXPECT_FALSE(planted.check(strategy, plant).pass);
  }
}

TEST(Plants, SlopesOfTheNextModelOrChannel) {
  const Shape shape{{"B", 4}, {"C", 4}, {"H", 3}, {"W", 2}};
  for (const char* strategy : {"one_pass", "wide"})
    for (const int64_t axis : {0, 1}) {
      Planted planted("prelu", shape, 4);
      const auto plant = [axis](const Strategy& s, const std::any& c, WideCall call) {
        call.inputs[1] = call.inputs[1].roll(1, axis);
        return s.run(c, call);
      };
      EXPECT_FALSE(planted.check(strategy, plant).pass) << strategy << " axis " << axis;
    }
}

TEST(Plants, PooledAlongTheWrongAxis) {
  for (const char* strategy : {"one_pass", "batched"}) {
    Planted planted("adaptiveavgpool2d",
                    {{"B", 4}, {"C", 3}, {"H", 6}, {"W", 6}, {"oh", 2}, {"ow", 2}}, 4);
    const auto honest = [](const Strategy& s, const std::any& c, const WideCall& w) {
      return s.run(c, w);
    };
    const Correctness right = planted.check(strategy, honest);
    EXPECT_TRUE(right.pass) << right.failure;
    const auto plant = [](const Strategy& s, const std::any& c, WideCall call) {
      call.inputs[0] = call.inputs[0].transpose(3, 4).contiguous();
      return s.run(c, call);
    };
    EXPECT_FALSE(planted.check(strategy, plant).pass);
  }
}

TEST(Plants, DrawnOnceAndHandedToAll) {
  Planted planted("dropout", {{"B", 16}, {"T", 16}, {"C", 16}}, 4);
  const auto honest = [](const Strategy& s, const std::any& c, const WideCall& w) {
    return s.run(c, w);
  };
  const Correctness right = planted.check("one_pass", honest);
  EXPECT_TRUE(right.pass) << right.failure;
  const auto plant = [](const Strategy& s, const std::any& c, WideCall call) {
    WideCall first = call;
    first.inputs[0] = at::ones_like(call.inputs[0].slice(0, 0, 1));
    return Tensors{call.inputs[0] * s.run(c, first)[0]};
  };
  EXPECT_FALSE(planted.check("one_pass", plant).pass);
}

TEST(Plants, MaskSharedByAll) {
  const auto run = [](const Strategy& s, const std::any& c, const WideCall& w) {
    return s.run(c, w);
  };
  Planted planted("dropout", {{"B", 16}, {"T", 16}, {"C", 16}}, 4);
  const Correctness independent = planted.check("independent", run);
  EXPECT_TRUE(independent.pass) << independent.failure;
  EXPECT_FALSE(planted.check("shared", run).pass);
  // Said openly it is right, and then independent masks are the fault.
  const Correctness shared = planted.check("shared", run, true);
  EXPECT_TRUE(shared.pass) << shared.failure;
  EXPECT_FALSE(planted.check("independent", run, true).pass);
}

}  // namespace
}  // namespace wide::testing::plants_test
