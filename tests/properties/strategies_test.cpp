// Every strategy of every target computes what N separate models compute.
#include "tests/properties/harness.h"

namespace wide::testing::strategies_test {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Target* target : targets()) out.push_back(target->name);
  return out;
}

std::string plain(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

using Force = std::map<std::string, std::string>;

Force forced(const Target& target, const std::string& strategy) {
  if (strategy.empty()) return {};
  if (strategy == "vmap" || strategy == "per_model") return {{"*", strategy}};
  if (const auto parts = target.parts.find(strategy); parts != target.parts.end())
    return parts->second;
  return {{target.name, strategy}};
}

/// Calls `visit(subject, strategy)`; random targets are checked elsewhere.
template <class Visit>
void for_each_case(const std::string& name, Visit visit) {
  for (const Subject& subject : subjects(name)) {
    if (subject.network().random) continue;
    for (const std::string& strategy : strategy_names(*subject.target)) {
      SCOPED_TRACE(subject.text() + " strategy " + strategy);
      visit(subject, strategy);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

Ensemble sample(const Subject& subject, int64_t n, at::ScalarType dtype = at::kDouble) {
  return generate(subject.network(), n, dtype, at::kCPU, 17);
}

// ------------------------------------------------------------------------------------- value

class StrategyValue : public ::testing::TestWithParam<std::string> {};

TEST_P(StrategyValue, EqualsSeparateModels) {
  const at::NoGradGuard guard;
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    const bool heavy = subject.target->name == "resnet18";
    for (const int64_t n :
         heavy ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 2, 3, 5, 7}) {
      SCOPED_TRACE(fmt::format("N={}", n));
      const Ensemble ensemble = sample(subject, n);
      const Program single = record_one(network, ensemble.model(0));
      EXPECT_EQ(single.updates.empty(), !network.training);
      Coverage coverage;
      const Tensors got =
          wide_models(single, ensemble, forced(*subject.target, strategy), &coverage);
      EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), 1e-9);
      if (strategy.empty() || strategy == "vmap" || strategy == "per_model") continue;
      bool used = false, declined = false;
      const Force force = forced(*subject.target, strategy);
      for (const CoverageItem& item : coverage.items) {
        const auto part = force.find(item.primitive);
        used |= part != force.end() && part->second == item.strategy;
        declined |= !item.reason.empty();
      }
      EXPECT_TRUE(used || declined) << "the strategy was neither used nor declined with a reason";
    }
  });
}

TEST_P(StrategyValue, EqualsSeparateModelsInSinglePrecision) {
  const at::NoGradGuard guard;
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    const Ensemble ensemble = sample(subject, 3, at::kFloat);
    const Program single = record_one(network, ensemble.model(0));
    const Tensors got = wide_models(single, ensemble, forced(*subject.target, strategy));
    Ensemble exact = ensemble;
    for (Tensor& t : exact.tensors)
      if (t.is_floating_point()) t = t.to(at::kDouble);
    const Tensors expected = separate_models(network, single, exact);
    EXPECT_LT(relative_error(got, expected), subject.target->tolerance_for(at::kFloat));
  });
}

TEST_P(StrategyValue, EqualsSeparateModelsInHalfPrecision) {
  const at::NoGradGuard guard;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(dtype));
    for_each_case(GetParam(), [dtype](const Subject& subject, const std::string& strategy) {
      const Network network = subject.network();
      const Ensemble ensemble = sample(subject, 3, dtype);
      Tensors own;
      try {
        own = network.forward(ensemble.model(0));
      } catch (const c10::Error&) {
        return;  // LibTorch has no kernel for it on this device
      }
      const Program single = record_one(network, ensemble.model(0));
      own = separate_models(network, single, ensemble);
      Ensemble exact = ensemble;
      for (Tensor& t : exact.tensors)
        if (t.is_floating_point()) t = t.to(at::kDouble);
      const Tensors expected = separate_models(network, single, exact);
      const Tensors got = wide_models(single, ensemble, forced(*subject.target, strategy));
      for (size_t k = 0; k < got.size(); ++k)
        EXPECT_EQ(got[k].scalar_type(), own[k].scalar_type()) << "output " << k;
      EXPECT_LT(relative_error(got, expected),
                std::max(subject.target->tolerance_for(dtype), 4 * relative_error(own, expected)));
    });
  }
}

TEST_P(StrategyValue, TakesInputsThatAreNotContiguous) {
  const at::NoGradGuard guard;
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    Ensemble ensemble = sample(subject, 3);
    const Program single = record_one(network, ensemble.model(0));
    const Tensors expected = separate_models(network, single, ensemble);
    for (Tensor& t : ensemble.tensors) {
      t = t.transpose(0, -1).contiguous().transpose(0, -1);  // N innermost in memory
    }
    EXPECT_LT(
        relative_error(wide_models(single, ensemble, forced(*subject.target, strategy)), expected),
        1e-9);
  });
}

TEST_P(StrategyValue, TakesSharedInputsAndWeights) {
  const at::NoGradGuard guard;
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    for (const bool inputs : {true, false}) {
      SCOPED_TRACE(inputs ? "shared inputs" : "shared weights");
      Ensemble ensemble = sample(subject, 3);
      for (size_t k : network.indices(inputs)) {
        ensemble.tensors[k] = ensemble.tensors[k].select(0, 0);
        ensemble.shared[k] = true;
      }
      const Program single = record_one(network, ensemble.model(0));
      const Tensors got = wide_models(single, ensemble, forced(*subject.target, strategy));
      EXPECT_LT(relative_error(got, separate_models(network, single, ensemble)), 1e-9);
    }
  });
}

// ----------------------------------------------------------------------- isolation and order

class StrategyIsolation : public ::testing::TestWithParam<std::string> {};

TEST_P(StrategyIsolation, NothingOfOneModelReachesAnother) {
  const at::NoGradGuard guard;
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    const Ensemble ensemble = sample(subject, 3);
    const Program single = record_one(network, ensemble.model(0));
    const Force force = forced(*subject.target, strategy);
    const Tensors before = wide_models(single, ensemble, force);
    for (int64_t poisoned = 0; poisoned < 3; ++poisoned) {
      Ensemble sick = ensemble;
      for (Tensor& t : sick.tensors) {
        t = t.clone();
        if (t.is_floating_point()) t.select(0, poisoned).fill_(NAN);
      }
      const Tensors after = wide_models(single, sick, force);
      for (size_t k = 0; k < before.size(); ++k)
        for (int64_t i = 0; i < 3; ++i) {
          if (i == poisoned) continue;
          EXPECT_TRUE(before[k].select(0, i).equal(after[k].select(0, i)))
              << "output " << k << " of model " << i << " saw model " << poisoned;
        }
    }
  });
}

TEST_P(StrategyIsolation, PermutedModelsPermuteTheOutputs) {
  const at::NoGradGuard guard;
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    const Ensemble ensemble = sample(subject, 5);
    const Program single = record_one(network, ensemble.model(0));
    const Force force = forced(*subject.target, strategy);
    const Tensor order = at::tensor({3, 0, 4, 1, 2}, at::kLong);
    Ensemble permuted = ensemble;
    for (Tensor& t : permuted.tensors) t = t.index_select(0, order);
    Tensors expected = wide_models(single, ensemble, force);
    for (Tensor& t : expected) t = t.index_select(0, order);
    EXPECT_LT(relative_error(wide_models(single, permuted, force), expected), 1e-9);
  });
}

// --------------------------------------------------------------------------------- gradients

class StrategyGradient : public ::testing::TestWithParam<std::string> {};

/// Gradients of a weighted sum of all outputs by every floating tensor.
Tensors gradients(const Tensors& outputs, const Tensors& leaves) {
  Tensor loss = at::zeros({}, at::kDouble);
  for (const Tensor& y : outputs) {
    if (!y.requires_grad()) continue;
    const Tensor weights = at::arange(y.numel(), at::kDouble).add(1).sin().view(y.sizes());
    loss = loss + (y * weights).sum();
  }
  loss.backward();
  Tensors grads;
  for (const Tensor& leaf : leaves)
    grads.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  return grads;
}

TEST_P(StrategyGradient, EqualsSeparateModels) {
  for_each_case(GetParam(), [](const Subject& subject, const std::string& strategy) {
    const Network network = subject.network();
    const Target& target = *subject.target;
    if (target.name == "resnet18") return;
    // The operator that recording leaves of training batch norm has no gradient of its own.
    if (network.training && !target.strategy(strategy)) return;
    // functorch's rule for embedding forgets that the padding row learns nothing.
    if (subject.shape.has("padding_idx") && strategy == "vmap") return;
    const auto leaves_of = [&](Ensemble& e) {
      Tensors leaves;
      for (size_t k = 0; k < e.tensors.size(); ++k) {
        if (!e.tensors[k].is_floating_point()) continue;
        e.tensors[k] = e.tensors[k].clone().detach();
        if (network.tensors[k].role == Role::buffer) continue;
        e.tensors[k].requires_grad_();
        leaves.push_back(e.tensors[k]);
      }
      return leaves;
    };
    const Ensemble ensemble = sample(subject, 3);
    const Program single = record_one(network, ensemble.model(0));
    Ensemble a = ensemble, b = ensemble;
    const Tensors wide_leaves = leaves_of(a), separate_leaves = leaves_of(b);
    const Tensors got = gradients(wide_models(single, a, forced(target, strategy)), wide_leaves);
    const Tensors expected = gradients(separate_models(network, single, b), separate_leaves);
    EXPECT_LT(relative_error(got, expected), 1e-8);
  });
}

// ---------------------------------------------------------------------------------- refusals

class TargetRefusal : public ::testing::TestWithParam<std::string> {};

TEST_P(TargetRefusal, SaysExactlyWhatIsWrong) {
  const Target& target = find_target(GetParam());
  EXPECT_FALSE(target.refusals.empty()) << "a target names inputs that it refuses";
  for (const Refusal& refusal : target.refusals) {
    try {
      target.network(refusal.shape);
      ADD_FAILURE() << "accepted " << refusal.shape.text();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), refusal.message);
    }
  }
}

TEST_P(TargetRefusal, DescriptorIsComplete) {
  const Target& target = find_target(GetParam());
  EXPECT_FALSE(target.summary.empty());
  EXPECT_FALSE(target.formula.empty());
  EXPECT_FALSE(target.source.empty());
  EXPECT_FALSE(target.tolerance_reason.empty());
  EXPECT_FALSE(target.file.empty());
  EXPECT_FALSE(target.axes.empty());
  for (const char* sweep : {"quick", "full", "ci"}) {
    ASSERT_TRUE(target.sweeps.count(sweep)) << sweep;
    EXPECT_FALSE(target.sweeps.at(sweep).n.empty());
    for (const Shape& shape : target.sweeps.at(sweep).shapes) {
      EXPECT_FALSE(target.network(shape).tensors.empty()) << shape.text();
      EXPECT_GE(target.flops(shape), 0.0);
    }
  }
  for (const Strategy& strategy : target.strategies) EXPECT_FALSE(strategy.summary.empty());
}

INSTANTIATE_TEST_SUITE_P(Targets, StrategyValue, ::testing::ValuesIn(names()), plain);
INSTANTIATE_TEST_SUITE_P(Targets, StrategyIsolation, ::testing::ValuesIn(names()), plain);
INSTANTIATE_TEST_SUITE_P(Targets, StrategyGradient, ::testing::ValuesIn(names()), plain);
INSTANTIATE_TEST_SUITE_P(Targets, TargetRefusal, ::testing::ValuesIn(names()), plain);

}  // namespace
}  // namespace wide::testing::strategies_test
