// A strategy names the operators of this project that it calls; what it can be called with follows
// from what those say of themselves. Here every strategy of every target is called in every dtype.
#include "engine/widen/capabilities.h"

#include "engine/widen/strategy.h"
#include "tests/properties/harness.h"

namespace wide::testing::strategy_capabilities_test {
namespace {

using at::ScalarType;
using Names = std::vector<std::string>;

struct Call {
  std::any config;
  WideCall call;  // float64
};

std::string only(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

std::vector<std::string> with_operators() {
  std::vector<std::string> names;
  for (const Target* target : targets())
    if (!target->strategies.empty()) names.push_back(target->name);
  return names;
}

/// The calls of `target` in its odd shapes and those of `ci`.
std::vector<Call> calls_of(const Target& target) {
  const at::NoGradGuard guard;
  std::vector<Call> calls;
  for (const Subject& subject : subjects(target.name)) {
    const Network network = subject.network();
    const Ensemble ensemble = generate(network, 3, at::kDouble, at::kCPU, 17);
    std::vector<WideValue> bound;
    for (const Tensor& t : ensemble.tensors) bound.push_back({t, true});
    WidenOptions options;
    options.choose = [&](const ClaimedCall& claimed) {
      if (claimed.rule.name == target.name) calls.push_back({claimed.config, claimed.call});
      return claimed.applicable.front();
    };
    evaluate_wide(record_one(network, ensemble.model(0)), ensemble.n, bound, options, nullptr);
  }
  return calls;
}

WideCall in_dtype(WideCall call, ScalarType dtype) {
  for (Tensor& t : call.inputs)
    if (t.defined() && t.is_floating_point()) t = t.to(dtype);
  return call;
}

/// Our operators that a strategy calls, and what it computes.
Tensors computed(const Strategy& strategy, const Call& call, std::set<std::string>& used) {
  Tensors made;
  std::vector<Binding> bindings;
  std::vector<size_t> places;
  for (size_t i = 0; i < call.call.inputs.size(); ++i) {
    if (!call.call.inputs[i].defined()) continue;
    bindings.push_back({fmt::format("x{}", i), Role::input, call.call.inputs[i], true});
    places.push_back(i);
  }
  const Program program = record(
      bindings,
      [&](const Tensors& tensors) {
        WideCall own = call.call;
        for (size_t k = 0; k < tensors.size(); ++k) own.inputs[places[k]] = tensors[k];
        return strategy.run(call.config, own);
      },
      call.call.n);
  for (const Node& node : program.nodes)
    if (const std::string name = node.op.operator_name().name; name.starts_with("wide::"))
      used.insert(name);
  return strategy.run(call.config, call.call);
}

bool declares(const Strategy& strategy, ScalarType dtype) {
  const auto has = [dtype](const std::vector<ScalarType>& all) {
    return std::find(all.begin(), all.end(), dtype) != all.end();
  };
  return std::all_of(strategy.operators.begin(), strategy.operators.end(),
                     [&](const std::string& op) {
                       const Capabilities::Form* form = capabilities(op).form_for(c10::kCPU);
                       return has(strategy.converts) || (form && has(form->dtypes));
                     });
}

/// Of the worst result, by its largest number.
double off(const Tensors& made, const Tensors& expected) {
  double worst = 0;
  for (size_t k = 0; k < std::min(made.size(), expected.size()); ++k) {
    if (!made[k].defined() || !expected[k].defined()) continue;
    worst = std::max(worst, relative_error({made[k]}, {expected[k]}));
  }
  return worst;
}

/// What is wrong with what one strategy declares. `random`: what it computes is no single value.
Names wrong(const Rule& rule, const Strategy& strategy, const std::vector<Call>& calls,
            const std::function<double(ScalarType)>& tolerance, bool random) {
  const at::NoGradGuard guard;
  Names found;
  const auto say = [&](const std::string& text) {
    if (found.empty() || found.back() != text) found.push_back(text);
  };
  const auto exact =
      std::find_if(rule.strategies.begin(), rule.strategies.end(),
                   [](const Strategy& s) { return s.operators.empty() && !s.only_when_asked; });
  const std::string begin = fmt::format("[{}/{}] call: got ", rule.name, strategy.name);
  std::set<std::string> used;
  std::map<ScalarType, int> ran;
  for (const Call& given : calls)
    for (const ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      if (strategy.operators.empty() && dtype != at::kDouble) continue;
      const Call call{given.config, in_dtype(given.call, dtype)};
      const char* name = c10::toString(dtype);
      const Applies no = rule.applies(strategy, call.config, call.call);
      if (!declares(strategy, dtype)) {
        const std::string end = fmt::format(
            " on the CPU, expected {}; try {}",
            text_of(capabilities(strategy.operators[0]), strategy.converts), exact->name);
        if (!no || !no->starts_with(begin) || !no->ends_with(end))
          say(fmt::format("{} is not refused with its reason: {}", name, no.value_or("none")));
        continue;
      }
      if (no) continue;
      try {
        const Tensors made = computed(strategy, call, used);
        ++ran[dtype];
        if (random || exact == rule.strategies.end()) continue;
        const Tensors known = exact->run(call.config, in_dtype(call.call, at::kDouble));
        if (const double error = off(made, known); !(error < tolerance(dtype)))
          say(fmt::format("{} is off by {}", name, error));
      } catch (const std::exception& e) {
        say(fmt::format("{} does not run: {}", name, e.what()));
      }
    }
  const std::set<std::string> listed(strategy.operators.begin(), strategy.operators.end());
  for (const std::string& op : used)
    if (!listed.count(op) && strategy.converts.empty()) say("calls " + op);
  for (const std::string& op : listed)
    if (!used.count(op)) say("never calls " + op);
  for (const auto& dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    if (!strategy.operators.empty() && declares(strategy, dtype) && ran[dtype] == 0)
      say(fmt::format("{} never ran", c10::toString(dtype)));
  return found;
}

class StrategyCapabilities : public ::testing::TestWithParam<std::string> {};

TEST_P(StrategyCapabilities, AreTrue) {
  const Target& target = find_target(GetParam());
  const std::vector<Call> calls = calls_of(target);
  ASSERT_FALSE(calls.empty());
  const bool random = target.name == "dropout";
  for (const Strategy& strategy : target.strategies) {
    const auto tolerance = [&](ScalarType dtype) { return target.tolerance_for(dtype); };
    EXPECT_EQ(wrong(target, strategy, calls, tolerance, random), Names()) << strategy.name;
  }
}

TEST_P(StrategyCapabilities, GradientsAreRefusedWhereAnOperatorHasNone) {
  const Target& target = find_target(GetParam());
  for (Call& given : calls_of(target)) {
    WideCall call = in_dtype(given.call, at::kFloat);
    bool learns = false;
    for (Tensor& t : call.inputs)
      if (!learns && t.defined() && t.is_floating_point())
        learns = (t = t.detach().requires_grad_()).requires_grad();
    for (const Strategy& strategy : target.strategies) {
      const bool able =
          std::all_of(strategy.operators.begin(), strategy.operators.end(),
                      [](const std::string& op) { return capabilities(op).gradients; });
      const Applies no = target.applies(strategy, given.config, call);
      const bool refused =
          no &&
          no->find("got one that autograd records, expected inference; try ") != std::string::npos;
      EXPECT_EQ(refused, !able) << strategy.name << ": " << no.value_or("applies");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, StrategyCapabilities, ::testing::ValuesIn(with_operators()),
                         only);

/// What is wrong with one_pass of prelu once `plant` has changed it.
std::string planted(const std::function<void(Strategy&)>& plant) {
  Rule rule = find_target("prelu");
  plant(rule.strategies.at(0));
  const Names found = wrong(
      rule, rule.strategies.at(0), calls_of(find_target("prelu")),
      [](ScalarType dtype) { return find_target("prelu").tolerance_for(dtype); }, false);
  return found.empty() ? "" : found[0].substr(0, found[0].find("run:"));
}

TEST(StrategyCapabilitiesTest, WrongOnesAreFound) {
  EXPECT_EQ(planted([](Strategy&) {}), "");
  EXPECT_EQ(planted([](Strategy& s) { s.operators.clear(); }), "Double does not ");
  EXPECT_EQ(planted([](Strategy& s) { s.converts = {at::kDouble}; }), "Double does not ");
  EXPECT_EQ(planted([](Strategy& s) { s.operators.push_back("wide::lookup"); }),
            "never calls wide::lookup");
  EXPECT_EQ(planted([](Strategy& s) { s.operators = {"wide::lookup"}; }), "calls wide::prelu");
  EXPECT_EQ(planted([](Strategy& s) {
              s.run = [run = s.run](const std::any& c, const WideCall& call) {
                Tensors made = run(c, call);
                return Tensors{made[0] * 1.01};
              };
            }).substr(0, 15),
            "Float is off by");
}

}  // namespace
}  // namespace wide::testing::strategy_capabilities_test
