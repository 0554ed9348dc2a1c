#include "engine/lower/tune/tune.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/lower/tune/quick_time.h"
#include "engine/machine/large_pages.h"
#include "engine/machine/threads.h"
#include "engine/measure/roofline.h"
#include "engine/measure/stopwatch.h"
#include "engine/passes/pass.h"
#include "engine/record/record.h"
#include "engine/widen/gradients.h"

namespace wide {

namespace {

// An estimate ignores caches and kernels: another strategy is preferred to the default one only if
// its estimate is below this share of the default's.
constexpr double kFarAhead = 0.6;

// A strategy that takes this many times as long as the best is not timed more precisely.
constexpr double kFarOff = 1.5;
// For calls this long the cost of starting operators is negligible, so more models at once, which
// share it, change nothing.
constexpr double kLongCall_ns = 1e6;

std::string inputs_text(const WideCall& call, bool strides) {
  std::string text;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& t = call.inputs[i];
    if (!text.empty()) text += ' ';
    if (!t.defined()) {
      text += '-';
      continue;
    }
    const auto own = t.sizes().slice(strides ? 0 : 1);  // sizes or strides of one model
    text += fmt::format("{}{}", fmt::join(own, ","), call.shared[i] ? "*" : "");
    if (strides)
      text += fmt::format(" {} {}", c10::toString(t.scalar_type()), fmt::join(t.strides(), ","));
  }
  return text;
}

std::string config_text(const Rule& rule, const std::any& config) {
  return !rule.strategies.empty() && rule.strategies[0].config_text
             ? rule.strategies[0].config_text(config)
             : "";
}

/// Which inputs get gradients, since a backward pass computes no others: "0 1".
std::string gradients_text(const WideCall& call) {
  std::vector<size_t> of;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i].defined() && call.inputs[i].requires_grad()) of.push_back(i);
  return fmt::format("{}", fmt::join(of, " "));
}

std::string call_text(const ClaimedCall& claimed, bool strides) {
  return fmt::format("{} {} {} {}", claimed.rule.name, config_text(claimed.rule, claimed.config),
                     inputs_text(claimed.call, strides), gradients_text(claimed.call));
}

/// A strategy's program on a call, and what its inputs are.
struct Recorded {
  std::vector<Binding> bindings;
  Program program;
};

/// The strategy's results or, with `gradients`, the gradients of their sum for the inputs that
/// require them, as in training.
Tensors run_strategy(const Strategy& strategy, const std::any& config, const WideCall& call,
                     bool gradients) {
  if (!gradients) return strategy.run(config, call);
  const at::AutoGradMode grad(true);
  Tensors of;
  for (const Tensor& t : call.inputs)
    if (t.defined() && t.requires_grad()) of.push_back(t);
  const Tensors made = strategy.run(config, call);
  Tensors outputs, ones, results;
  for (const Tensor& t : made)
    if (t.defined() && t.requires_grad()) {
      outputs.push_back(t);
      ones.push_back(at::ones_like(t));
    }
  if (outputs.empty()) return made;
  for (const Tensor& t : gradients_of(outputs, of, ones))
    if (t.defined()) results.push_back(t);
  return results;
}

Recorded record_strategy(const Rule& rule, const Strategy& strategy, const std::any& config,
                         const WideCall& call, const TunerOptions& options) {
  Recorded recorded;
  std::vector<size_t> position;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined()) continue;
    // A training step changes its parameters, so they are not packed beforehand.
    const bool parameter =
        !options.gradients && i < rule.parameter_inputs.size() && rule.parameter_inputs[i];
    recorded.bindings.push_back(
        {"", parameter ? Role::parameter : Role::input, call.inputs[i].detach(), true});
    position.push_back(i);
  }
  recorded.program = record(
      recorded.bindings,
      [&](const Tensors& tensors) {
        WideCall inner = call;
        for (size_t k = 0; k < tensors.size(); ++k) {
          const bool differentiated = options.gradients && call.inputs[position[k]].requires_grad();
          inner.inputs[position[k]] =
              differentiated ? tensors[k].detach().requires_grad_() : tensors[k];
        }
        return run_strategy(strategy, config, inner, options.gradients);
      },
      call.n);
  run_passes(recorded.program);
  return recorded;
}

}  // namespace

double with_readers_ns(const Program& program, double ns) {
  constexpr double kOutOfOrder = 1.1;  // of equally fast ones the contiguous wins
  const bool in_order = std::ranges::all_of(
      program.outputs, [&](ValueId id) { return program.value(id).contiguous(); });
  return in_order ? ns : kOutOfOrder * ns;
}

double time_strategy(const Rule& rule, const Strategy& strategy, const std::any& config,
                     const WideCall& call, const TunerOptions& options, double best_ns) {
  at::NoGradGuard no_grad;
  const auto [bindings, program] = record_strategy(rule, strategy, config, call, options);
  std::unordered_map<ValueId, Tensor> known;
  for (size_t k = 0; k < bindings.size(); ++k)
    if (bindings[k].role == Role::parameter) known[program.bound[k]] = bindings[k].tensor;
  run_phase(program, Phase::prologue, known);
  PlanOptions planned;
  planned.serial = options.serial;
  Plan plan(program, known, planned);
  Tensors prepared, results;
  for (size_t k = 0; k < plan.outside().size(); ++k) {
    const ValueId id = plan.outside()[k];
    auto it = known.find(id);
    prepared.push_back(it != known.end() ? plan.prepare(k, it->second)
                                         : bindings[program.bound_at(id)].tensor);
    plan.bind(k, prepared.back());
  }
  std::vector<void*> out;
  for (const Value& v : plan.results()) {
    results.push_back(empty_to_keep(v.sizes, at::TensorOptions().dtype(v.dtype).device(v.device)));
    out.push_back(results.back().data_ptr());
  }
  plan.bind_outputs(out);
  // Times the steps without copying results out: a later step would read the result as a view.
  Stopwatch watch(results.empty() ? c10::Device(c10::kCPU) : results.front().device());
  auto once = [&] { return watch.time_ns([&] { plan.run_steps(); }); };
  double median = 0;
  auto measure = [&] {
    median = first_look_ns(once, kFarOff * best_ns);
    if ((best_ns > 0 && median > kFarOff * best_ns) || median > kSteadyCall_ns) return;
    median = median_ns(once, std::clamp(static_cast<int>(4e6 / (median + 1)), 3, 25));
  };
  if (options.serial) {
    run_serial(measure);
  } else {
    run_parallel(1, 1, [&](int, int) { measure(); });
  }
  return options.gradients ? median : with_readers_ns(program, median);
}

double estimate_strategy(const Rule& rule, const Strategy& strategy, const std::any& config,
                         const WideCall& call, const TunerOptions& options) {
  at::NoGradGuard no_grad;
  const Program program = record_strategy(rule, strategy, config, call, options).program;
  return estimate_ns(program, typical_peaks(options.serial ? 1 : options.threads));
}

TuningKey Tuner::key(const ClaimedCall& claimed, const std::string& scope) const {
  TuningKey key;
  key.scope = scope;
  key.primitive = claimed.rule.name;
  key.config = config_text(claimed.rule, claimed.config) +
               (options_.gradients ? " gradients " + gradients_text(claimed.call) : "");
  key.shape = inputs_text(claimed.call, false);
  for (const Tensor& t : claimed.call.inputs) {
    if (!t.defined()) continue;
    key.device = t.device().str();
    if (!key.dtype.empty() && !t.is_floating_point()) continue;
    key.dtype = c10::toString(t.scalar_type());
    if (t.is_floating_point()) break;
  }
  const bool whole = scope == "network";
  key.threads = whole || !options_.serial ? options_.threads : 1;
  key.n = whole ? options_.n : claimed.call.n;
  return key;
}

std::string Tuner::choose(const ClaimedCall& claimed) {
  const TuningKey network = key(claimed, "network");
  const TuningEntry chosen = choose_among(claimed, network);
  seen_[claimed.call.n].insert_or_assign(
      network.text(), TunedChoice{network, chosen.strategy, claimed.applicable, chosen.median_ns});
  return chosen.strategy;
}

TuningEntry Tuner::choose_among(const ClaimedCall& claimed, const TuningKey& network) {
  const std::vector<std::string>& applicable = claimed.applicable;
  const auto can = [&](const std::string& strategy) {
    return std::ranges::find(applicable, strategy) != applicable.end();
  };
  if (applicable.size() == 1) return {applicable[0]};
  if (const auto it = options_.decided.find(network.text());
      it != options_.decided.end() && can(it->second))
    return {it->second};
  if (const auto entry = tuning_table().lookup(network); entry && can(entry->strategy))
    return {entry->strategy};
  const std::string exactly = call_text(claimed, true);
  if (auto it = known_.find(exactly); it != known_.end()) return it->second;
  const TuningKey alone = key(claimed, "call");
  if (const auto entry = tuning_table().lookup(alone); entry && can(entry->strategy)) return *entry;
  if (!options_.measure) return known_[exactly] = {estimated(claimed)};
  const TuningEntry best = fastest(claimed);
  tuning_table().store(alone, best);
  return known_[exactly] = best;
}

TuningEntry Tuner::fastest(const ClaimedCall& claimed) const {
  const Rule& rule = claimed.rule;
  const std::string kind = call_text(claimed, false) + " ";
  TuningEntry best;
  std::map<std::string, double> timed_ns;
  for (const std::string& name : claimed.applicable) {
    if (options_.far_off->count(kind + name)) continue;
    double ns = 0;
    try {
      ns = time_strategy(rule, *rule.strategy(name), claimed.config, claimed.call, options_,
                         best.median_ns);
    } catch (const c10::Error&) {
      if (!options_.gradients) throw;
      continue;  // the strategy's operator has no gradient
    }
    timed_ns[name] = ns;
    if (best.strategy.empty() || ns < best.median_ns) best = {name, ns};
  }
  for (const auto& [name, ns] : timed_ns)
    if (best.median_ns > kLongCall_ns && ns > kFarOff * best.median_ns)
      options_.far_off->insert(kind + name);
  if (best.strategy.empty()) best.strategy = claimed.applicable.front();
  return best;
}

std::string Tuner::estimated(const ClaimedCall& claimed) const {
  const Rule& rule = claimed.rule;
  std::string best = claimed.applicable.front();
  double best_ns = 0;
  for (const std::string& name : claimed.applicable) {
    const double ns =
        estimate_strategy(rule, *rule.strategy(name), claimed.config, claimed.call, options_);
    if (best_ns == 0) {
      best_ns = kFarAhead * ns;
    } else if (ns < best_ns) {
      best_ns = ns;
      best = name;
    }
  }
  return best;
}

std::vector<TunedChoice> Tuner::choices(int64_t n) const {
  std::vector<TunedChoice> choices;
  if (const auto seen = seen_.find(n); seen != seen_.end())
    for (const auto& [text, choice] : seen->second) choices.push_back(choice);
  return choices;
}

}  // namespace wide
