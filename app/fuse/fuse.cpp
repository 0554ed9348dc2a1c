#include "app/fuse/fuse.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "app/cancel.h"
#include "app/sandbox/sandbox.h"
#include "app/trial/contest.h"
#include "engine/check/check.h"
#include "engine/measure/loop_timeline.h"

namespace wide {
namespace {

/// Ends the contest when the user presses Ctrl-C, and sends heartbeats until then.
class UntilCancelled : public Stages {
 public:
  void begin(const std::string&, const std::string&) override { go_on(); }
  void call(size_t) override { go_on(); }

 private:
  static void go_on() {
    heartbeat();
    check_cancelled();
  }
};

Way way_of(const StepCost& step) {
  if (step.strategy == to_string(Way::vmap)) return Way::vmap;
  if (step.strategy == to_string(Way::per_model)) return Way::per_model;
  if (step.strategy == to_string(Way::shared)) return Way::shared;
  return Way::strategy;
}

/// Bytes of N separate models: their weights, and one model's activations at a time.
int64_t separate_bytes(const Program& single, int64_t n) {
  int64_t weights = 0;
  for (const ValueId id : single.bound) {
    const Value& v = single.value(id);
    if (v.role != Role::input) weights += v.bytes();
  }
  return (n - 1) * weights + single.peak_bytes();
}

/// Fills in how the network was made wide.
void describe(const CompiledModel& model, FuseOutcome* outcome) {
  FuseResult& r = outcome->result;
  r.coverage = model.coverage().counts();
  r.items = model.coverage().items;
  for (const CoverageItem& item : r.items) {
    if (item.way == Way::per_model || !item.reason.empty())
      r.fallbacks.push_back({item.node, item.op, item.reason});
    if (item.way == Way::shared) outcome->shared_nodes += item.nodes;
  }
  r.passes = model.passes();
  r.plan = model.plan_text();
  r.wide_bytes = model.bytes();
}

/// Adds the time of torch.compile for the same models to the baselines.
void ask_for_torch_compile(const Contest& contest, const FuseOptions& options,
                           ContestResult* held) {
  if (options.peer.python.empty()) return;
  PeerResult peer = ask_peer({contest.ensemble.n, "forward", contest.network, contest.single,
                              contest.ensemble, separate(contest.single, contest.ensemble)},
                             options.peer, [] {
                               heartbeat();
                               check_cancelled();
                             });
  for (Timing& timing : peer.timings) held->baselines.push_back(std::move(timing));
  for (std::string& absent : peer.absent) held->notes.push_back(std::move(absent));
  compare(held->trials.front().trial, held->baselines, held->disturbed, options.seed);
}

/// Moves the result of the contest's only trial to `r`.
void take(ContestResult held, FuseResult* r) {
  Trial& trial = held.trials.front().trial;
  r->correctness = *trial.correctness;
  r->first_call_ns = trial.timing.first_call_ns;
  r->speedup = trial.speedup;
  if (trial.status == Status::ok) r->chosen = trial.strategy;
  r->notes.insert(r->notes.end(), held.notes.begin(), held.notes.end());
  r->other_load = held.other_load;
  r->disturbed = held.disturbed;
  if (held.disturbed)
    r->notes.push_back(fmt::format(
        "disturbed: other programs took {:.0f} % of the cores while it was timed, so that its "
        "times are UNCLEAR; try again on a quiet machine",
        100 * held.other_load));
  r->results = std::move(held.baselines);
  r->results.push_back(std::move(trial.timing));
}

}  // namespace

FuseOutcome fuse(Subject& subject, int64_t n, const FuseOptions& options) {
  const at::NoGradGuard no_grad;
  const Program& single = subject.single();
  check_reduce(options.reduce, single, n);
  const Ensemble ensemble = subject.ensemble(n);
  Contest contest{subject.network(), single, ensemble};
  contest.candidates = {{"wide", [&](double) {
                           return compile(subject.network(), ensemble, options.compile, single);
                         }}};
  contest.device = subject.device();
  contest.dtype = subject.dtype();
  contest.tolerance = subject.tolerance();
  contest.budget_s = options.budget_s;
  contest.seed = options.seed;
  contest.threads = options.threads;
  contest.reduce = options.reduce;
  contest.keep_results = true;
  UntilCancelled stages;
  ContestResult held = run_contest(contest, stages);
  if (held.trials.front().thrown) std::rethrow_exception(held.trials.front().thrown);
  ask_for_torch_compile(contest, options, &held);
  const std::unique_ptr<CompiledModel> model = std::move(held.trials.front().model);

  FuseOutcome outcome;
  outcome.outputs = std::move(held.trials.front().results);
  outcome.outputs.resize(single.outputs.size());  // without buffer updates
  FuseResult& r = outcome.result;
  r.n = n;
  r.separate_bytes = separate_bytes(single, n);
  if (options.reduce != Reduce::none)
    r.notes.push_back("baselines give every model's own outputs: they are timed without --reduce");
  describe(*model, &outcome);
  take(std::move(held), &r);

  const Tensors inputs = pick(subject.network(), ensemble, true);
  if (options.explain || options.coverage_time) {
    const std::vector<StepCost> steps = model->explain(inputs);
    for (const StepCost& step : steps) r.coverage_time[way_of(step)] += step.share;
    if (options.explain) r.steps = steps;
  }
  if (options.timeline) {
    const std::vector<Baseline> loop =
        baselines(subject.network(), ensemble, options.threads,
                  [](const std::string& name) { return name == "loop"; });
    r.timeline = {loop_timeline(loop.front(), n, options.threads, subject.device()),
                  model->timeline(inputs)};
  }
  return outcome;
}

}  // namespace wide
