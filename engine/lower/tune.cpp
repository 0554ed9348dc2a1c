#include "engine/lower/tune.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "engine/error.h"
#include "engine/lower/threads.h"
#include "engine/passes/pass.h"
#include "engine/record.h"

namespace wide {

namespace {

std::string key(const Target& target, const std::any& config, const WideCall& call) {
  std::string text = target.name;
  if (!target.strategies.empty() && target.strategies[0].config_text)
    text += " " + target.strategies[0].config_text(config);
  for (const Tensor& t : call.inputs)
    text += t.defined() ? fmt::format(" {}{}{}", c10::toString(t.scalar_type()),
                                      fmt::join(t.sizes(), ","), fmt::join(t.strides(), ","))
                        : " -";
  return text;
}

}  // namespace

double time_strategy(const Target& target, const Strategy& strategy, const std::any& config,
                     const WideCall& call, bool serial, double best_ns) {
  at::NoGradGuard no_grad;
  std::vector<Binding> bindings;
  std::vector<size_t> position;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined()) continue;
    const bool parameter = i < target.parameter_inputs.size() && target.parameter_inputs[i];
    bindings.push_back({"", parameter ? Role::parameter : Role::input, call.inputs[i], true});
    position.push_back(i);
  }
  Program program = record(
      bindings,
      [&](const Tensors& tensors) {
        WideCall inner = call;
        for (size_t k = 0; k < tensors.size(); ++k) inner.inputs[position[k]] = tensors[k];
        return strategy.run(config, inner);
      },
      call.n);
  for (const Pass* pass : passes()) pass->run(program);
  std::unordered_map<ValueId, Tensor> known;
  for (size_t k = 0; k < bindings.size(); ++k)
    if (bindings[k].role == Role::parameter) known[program.bound[k]] = bindings[k].tensor;
  run_phase(program, Phase::prologue, known);
  PlanOptions options;
  options.serial = serial;
  Plan plan(program, known, options);
  Tensors prepared, results;
  for (size_t k = 0; k < plan.outside().size(); ++k) {
    const ValueId id = plan.outside()[k];
    auto it = known.find(id);
    const auto bound = std::find(program.bound.begin(), program.bound.end(), id);
    prepared.push_back(it != known.end()
                           ? plan.prepare(k, it->second)
                           : bindings[static_cast<size_t>(bound - program.bound.begin())].tensor);
    plan.bind(k, prepared.back());
  }
  std::vector<void*> out;
  for (const Value& v : plan.results()) {
    results.push_back(at::empty(v.sizes, at::TensorOptions().dtype(v.dtype).device(v.device)));
    out.push_back(results.back().data_ptr());
  }
  plan.bind_outputs(out);
  // A result that a later step could read as a view costs no copy there: time the steps alone.
  auto once = [&] {
    const auto start = std::chrono::steady_clock::now();
    plan.run_steps();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
        .count();
  };
  double median = 0;
  auto measure = [&] {
    const double first = std::min(once(), once());
    median = first;
    if (best_ns > 0 && first > 2 * best_ns) return;
    const int calls = std::clamp(static_cast<int>(4e6 / (first + 1)), 3, 25);
    std::vector<double> samples;
    for (int i = 0; i < calls; ++i) samples.push_back(once());
    std::nth_element(samples.begin(), samples.begin() + calls / 2, samples.end());
    median = samples[static_cast<size_t>(calls / 2)];
  };
  if (serial) {
    run_serial(measure);
  } else {
    run_parallel(1, 1, [&](int, int) { measure(); });
  }
  return median;
}

std::string Tuner::choose(const Target& target, const std::any& config, const WideCall& call,
                          const std::vector<std::string>& applicable) {
  if (applicable.size() == 1) return applicable[0];
  const std::string k = key(target, config, call);
  if (auto it = known_.find(k); it != known_.end()) return it->second;
  std::string best = applicable[0];
  double best_ns = 0;
  for (const std::string& name : applicable) {
    const double ns = time_strategy(target, *target.strategy(name), config, call, serial_, best_ns);
    if (best_ns == 0 || ns < best_ns) {
      best = name;
      best_ns = ns;
    }
  }
  return known_[k] = best;
}

}  // namespace wide
