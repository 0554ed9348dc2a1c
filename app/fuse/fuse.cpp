#include "app/fuse/fuse.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "app/cancel.h"
#include "app/results/table.h"
#include "app/trial/judge.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/measure/clock.h"

namespace wide {
namespace {

Way way_of(const StepCost& step) {
  if (step.strategy == to_string(Way::vmap)) return Way::vmap;
  if (step.strategy == to_string(Way::per_model)) return Way::per_model;
  if (step.strategy == to_string(Way::shared)) return Way::shared;
  return Way::strategy;
}

/// Outputs of the candidate against float64 again, after it was timed: a path that spoils its own
/// buffers is right at first only.
void check_after(CompiledModel& model, const Tensors& inputs, const Tensors& expected,
                 Reduce reduce, Correctness* correctness) {
  const Tensors got = model.run(inputs);
  double error = 0;
  if (reduce == Reduce::none) {
    error = max_relative_error(got, expected);
  } else {
    const auto updates = static_cast<std::ptrdiff_t>(model.single().outputs.size());
    error = reduced_error(reduce, {got.begin(), got.begin() + updates}, expected,
                          allowed(*correctness));
    error = std::max(error, max_relative_error({got.begin() + updates, got.end()},
                                               {expected.begin() + updates, expected.end()}));
  }
  correctness->max_rel = std::max(correctness->max_rel, error);
  if (!(error <= allowed(*correctness))) {
    correctness->pass = false;
    correctness->failure = fmt::format("after timing: relative error {}, expected at most {}",
                                       error_text(error), error_text(allowed(*correctness)));
  }
}

}  // namespace

Contender cancellable(std::string name, std::string kind, c10::Device device,
                      std::function<void()> call) {
  const auto checked = [call = std::move(call)] {
    check_cancelled();
    call();
  };
  return {std::move(name), std::move(kind), checked, device};
}

Tensors pick(const Network& network, const Ensemble& ensemble, bool inputs) {
  Tensors out;
  for (const size_t i : network.indices(inputs)) out.push_back(ensemble.tensors[i]);
  return out;
}

int64_t separate_bytes(const Program& single, int64_t n) {
  int64_t weights = 0;
  for (const ValueId id : single.bound) {
    const Value& v = single.value(id);
    if (v.role != Role::input) weights += v.bytes();
  }
  return (n - 1) * weights + single.peak_bytes();
}

std::vector<Baseline> honest_baselines(const Network& network, const Ensemble& ensemble,
                                       int threads, const Tensors& expected, double tolerance,
                                       std::vector<std::string>* notes, std::string* disagreement,
                                       const std::function<bool(const std::string&)>& wanted) {
  std::vector<Baseline> good;
  for (Baseline& baseline : baselines(network, ensemble, threads)) {
    check_cancelled();
    if (wanted && !wanted(baseline.name)) continue;
    if (!baseline.call) {
      notes->push_back(
          fmt::format("baseline {} is not available: {}", baseline.name, baseline.unavailable));
      continue;
    }
    if (!network.random && !expected.empty() && baseline.run) {
      const Tensors got = baseline.run();
      const size_t count = std::min(got.size(), expected.size());  // without buffer updates
      const double error = max_relative_error(
          {got.begin(), got.begin() + static_cast<std::ptrdiff_t>(count)},
          {expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(count)});
      if (!(error <= tolerance)) {
        notes->push_back(fmt::format("baseline {} is wrong (relative error {}) and left out",
                                     baseline.name, error_text(error)));
        // The others are ways to compute the models; the loop is the models themselves.
        if (baseline.name == "loop" && disagreement)
          *disagreement = fmt::format(
              "the program recorded of one model is not what the separate models compute: relative "
              "error {}; does forward keep numbers between calls?",
              error_text(error));
        continue;
      }
    }
    good.push_back(std::move(baseline));
  }
  return good;
}

FuseOutcome fuse(Subject& subject, int64_t n, const FuseOptions& options) {
  const at::NoGradGuard no_grad;
  const Program& single = subject.single();
  const Network& network = subject.network();
  check_reduce(options.reduce, single, n);
  const Ensemble ensemble = subject.ensemble(n);
  const Tensors inputs = pick(network, ensemble, true);
  const Tensors weights = pick(network, ensemble, false);
  check_cancelled();

  FuseOutcome outcome;
  FuseResult& r = outcome.result;
  r.n = n;

  const double start = now_ns();
  std::unique_ptr<CompiledModel> model = compile(network, ensemble, options.compile, single);
  const int64_t peak_bytes =
      candidate_bytes(ensemble, *model, subject.device(), [&] { model->run(inputs); });
  r.first_call_ns = now_ns() - start;
  check_cancelled();

  r.coverage = model->coverage().counts();
  r.items = model->coverage().items;
  for (const CoverageItem& item : r.items) {
    if (item.way == Way::per_model || !item.reason.empty())
      r.fallbacks.push_back({item.node, item.op, item.reason});
    if (item.way == Way::shared) outcome.shared_nodes += item.nodes;
  }
  r.passes = model->passes();
  r.plan = model->plan_text();
  r.wide_bytes = model->bytes();
  r.separate_bytes = separate_bytes(single, n);

  const WideFunction candidate = as_function(*model, network);
  r.correctness = check(network, single, ensemble, candidate, subject.tolerance());
  model->set_weights(weights);  // the check fed it others
  if (options.reduce != Reduce::none) {
    // Models are told apart before they are reduced; from here on it is the reduced answer.
    model = reduced(std::move(model), options.reduce);
    r.notes.push_back("baselines give every model's own outputs: they are timed without --reduce");
  }
  check_cancelled();

  Tensors expected;
  if (!network.random) {
    expected = reference(single, ensemble);
    if (r.correctness.pass) check_after(*model, inputs, expected, options.reduce, &r.correctness);
  }
  // A second call into other memory than the first: its results are the ones to keep.
  const Tensors results = model->run(inputs);
  for (size_t i = 0; i < single.outputs.size(); ++i)
    outcome.outputs.push_back(results[i].contiguous().clone());

  std::string disagreement;
  const auto separate =
      honest_baselines(network, ensemble, options.threads, expected,
                       std::max(1e-2, allowed(r.correctness)), &r.notes, &disagreement);
  if (!disagreement.empty() && r.correctness.pass) {
    r.correctness.pass = false;
    r.correctness.failure = disagreement;
  }
  const c10::Device device = subject.device();
  std::vector<Contender> contenders;
  for (const Baseline& b : separate)
    contenders.push_back(cancellable(b.name, "baseline", device, b.call));
  contenders.push_back(cancellable("wide", "candidate", device, [&] { model->run(inputs); }));
  contenders.back().has_run = true;
  if (options.reduce == Reduce::none)
    contenders.back().call_with_packing =
        packing_call(*model, ensemble, network, std::make_shared<Tensors>());
  MeasureOptions how;
  how.budget_s = options.budget_s;
  how.seed = options.seed;
  r.results = measure(contenders, how);
  check_cancelled();

  Timing& timing = r.results.back();
  timing.first_call_ns = r.first_call_ns;
  timing.peak_bytes = peak_bytes;
  const CaseJudge judge(single, ensemble, device, subject.dtype(), options.threads, 0);
  for (Timing& t : r.results) {
    if (t.kind == "baseline")
      judge.baseline(t);
    else
      judge.candidate(t, *model);
  }

  if (r.correctness.pass) {
    if (network.random) {
      r.correctness = check(network, single, ensemble, candidate, subject.tolerance());
      model->set_weights(weights);
    } else {
      check_after(*model, inputs, expected, options.reduce, &r.correctness);
    }
  }
  if (r.correctness.pass) {
    r.chosen = timing.name;
    const std::vector<Timing> slow(r.results.begin(), r.results.end() - 1);
    if (!slow.empty()) r.speedup = speedup_of(slow, timing, options.seed);
  }

  if (options.explain || options.coverage_time) {
    const std::vector<StepCost> steps = model->explain(inputs);
    for (const StepCost& step : steps) r.coverage_time[way_of(step)] += step.share;
    if (options.explain) r.steps = steps;
  }
  return outcome;
}

}  // namespace wide
