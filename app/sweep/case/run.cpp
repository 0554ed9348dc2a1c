#include "app/sweep/case/run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "app/sweep/case/estimate.h"
#include "app/sweep/case/prepare.h"
#include "app/trial/contest.h"
#include "app/trial/peer.h"
#include "data/reports/sweep/explanation.h"
#include "data/text.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/machine/clock.h"
#include "engine/measure/roofline.h"

namespace wide {
namespace {

constexpr double kLongToCheckS = 0.3;  // of a call by estimate; beyond it few samples are checked

/// Throws if a compiled trial does not use the strategy that it is named after.
void expect_strategy(const Target& target, const std::string& strategy, const Coverage& coverage) {
  const bool chosen = strategy == kChosen && target.strategy(kChosen) == nullptr;
  if (chosen || strategy == "per_model") return;
  if (strategy == "vmap") {
    for (const CoverageItem& item : coverage.items)
      if (item.way == Way::per_model)
        throw Unsupported(
            fmt::format("[{}/vmap] {}: {}", target.name, item.op, printable(item.reason, 160)));
    return;
  }
  std::map<std::string, std::string> wanted{{target.name, strategy}};
  if (const auto parts = target.parts.find(strategy); parts != target.parts.end())
    wanted = parts->second;
  std::string why;
  for (const CoverageItem& item : coverage.items) {
    const auto part = wanted.find(item.primitive);
    if (part != wanted.end() && part->second == item.strategy) return;
    if (why.empty()) why = item.reason;
  }
  throw Unsupported(why.empty()
                        ? fmt::format("[{}/{}] nothing that was recorded is its kind of call",
                                      target.name, strategy)
                        : printable(why, 200));
}

CompileOptions compile_options(const SweepCase& planned, const SweepSettings& settings) {
  CompileOptions options;
  options.mode = planned.mode;
  options.autotune_s = settings.budget_s;
  options.threads = settings.threads;
  return options;
}

/// Compiles all N models by one strategy. Throws if the strategy does not apply.
std::unique_ptr<CompiledModel> compile_strategy(const SweepCase& planned,
                                                const SweepSettings& settings,
                                                const PreparedCase& made,
                                                const std::string& strategy, double far_off_ns) {
  const Target& target = *planned.target;
  CompileOptions options = compile_options(planned, settings);
  options.widen = widen_options(target, strategy, settings.forced);
  options.far_off_ns = far_off_ns;
  if (strategy == "vmap") {
    // A missing batching rule shows with one model already, before ranges are timed.
    CompileOptions untuned = options;
    untuned.tune = false;
    const StrategyChoice one = choose_strategies(made.network, made.ensemble.models(0, 1), untuned,
                                                 made.single, target.name);
    expect_strategy(target, strategy, one.coverage);
  }
  std::unique_ptr<CompiledModel> model = compile(made.network, made.ensemble, options, made.single);
  expect_strategy(target, strategy, model->coverage());
  return model;
}

/// Samples to check against float64: all, or only the first and last if calls are long.
std::vector<int64_t> checked_samples(const SweepCase& planned) {
  const int64_t count = planned.shape[planned.target->samples];
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(i);
  if (count > 2 && estimate_call_s(planned) > kLongToCheckS) return {0, count - 1};
  return samples;
}

/// The contest of a case: every strategy, and the baselines. Keeps references to its arguments.
Contest contest_of(const SweepCase& planned, const SweepSettings& settings,
                   const PreparedCase& made) {
  const Target& target = *planned.target;
  Contest c{made.network, made.single, made.ensemble};
  for (const std::string& strategy : planned.strategies)
    c.candidates.push_back({strategy,
                            [&, strategy](double far_off_ns) {
                              return compile_strategy(planned, settings, made, strategy,
                                                      far_off_ns);
                            },
                            // Strategy `shared` must draw the same masks for all models.
                            made.network.random && strategy == "shared"});
  c.device = planned.device;
  c.dtype = planned.dtype;
  c.phase = planned.phase;
  c.tolerance = target.tolerance_for(planned.dtype);
  c.budget_s = settings.budget_s;
  c.seed = settings.seed;
  c.threads = settings.threads;
  if (planned.phase == "forward" && target.flops) c.flops = target.flops(planned.shape);
  c.baselines = settings.baselines;
  c.baselines_off = settings.baselines_off;
  if (!made.has_loop) c.baselines_off.insert("*");
  c.min_samples = settings.min_samples;
  c.own_baselines = made.own_baselines;
  if (made.one_sample) {
    const std::vector<int64_t> samples = checked_samples(planned);
    c.expected = [&made, samples] {
      return expect_of_samples(made.network, *made.one_sample, made.ensemble, samples);
    };
    c.compared = [samples](const Tensors& results) { return pick_samples(results, samples); };
  }
  c.memory = made.memory;
  return c;
}

/// Moves nodes that depend on weights alone into the prologue, which runs once for a set of
/// weights.
Program without_preparing(Program program) {
  ByValue<bool> varies(program.values.size(), false);
  for (const ValueId id : program.bound) varies[id] = program.value(id).role == Role::input;
  for (Node& node : program.nodes) {
    bool any = false;
    for_each_value(node.arguments, [&](ValueId id) { any |= varies[id]; });
    for_each_value(node.results, [&](ValueId id) { varies[id] = any; });
    if (!any) node.phase = Phase::prologue;
  }
  return program;
}

/// Operators and bytes of the forms of a target that has more than one.
void explain_forms(const PreparedCase& made, const ContestResult& held, Case* result) {
  if (!made.optimised) return;
  std::vector<const Timing*> timings;
  const auto add = [&](const char* form, const Traffic& t, double models, const Timing* timing) {
    timings.push_back(timing);
    result->work.push_back({form, static_cast<int64_t>(models * double(t.operators)),
                            models * t.bytes, t.passes, models * t.flops});
  };
  const auto n = static_cast<double>(made.ensemble.n);
  const auto baseline = [&](const char* name) -> const Timing* {
    for (const Timing& b : held.baselines)
      if (b.name == name) return &b;
    return nullptr;
  };
  add("naive", count_traffic(made.single), n, baseline("loop"));
  add("optimised", count_traffic(without_preparing(*made.optimised)), n, baseline("optimised"));
  for (const TriedCandidate& t : held.trials)
    if (t.model && t.trial.status == Status::ok) {
      add("compiled", count_traffic(t.model->program()), 1, &t.trial.timing);
      break;
    }
  result->explanation = explanation_of(result->work, timings);
}

/// Copies the contest's results into the case's.
void take_results(ContestResult held, Case* result) {
  const double setup_s = result->seconds.setup;
  result->seconds = held.seconds;
  result->seconds.setup += setup_s;
  result->baselines = std::move(held.baselines);
  for (std::string& note : held.notes) result->notes.push_back(std::move(note));
  result->other_load = held.other_load;
  result->disturbed = held.disturbed;
  for (size_t i = 0; i < held.trials.size(); ++i)
    result->trials[i] = std::move(held.trials[i].trial);
}

/// Runs a step that comes after the trials. If it fails, a note says why, and their results stay.
void after_trials(const std::string& name, const PreparedCase& made, Case* result,
                  const std::function<void()>& step) {
  try {
    step();
  } catch (...) {
    result->notes.push_back(outcome_of(std::current_exception(), name, made.memory).reason);
  }
}

/// Times torch.compile on the same case, in another Python; if it cannot, a note says why.
void ask_torch_compile(const SweepCase& planned, const SweepSettings& settings, Stages& stages,
                       const PreparedCase& made, Case* result) {
  if (settings.peer.empty() || result->trials.empty() || !made.has_loop ||
      settings.baselines_off.count(kPeer))
    return;
  const auto alive = [&] { stages.begin("baseline", std::string(kBaselinePrefix) + kPeer); };
  alive();
  const Clocked clocked(&result->seconds.baselines);
  PeerResult peer = ask_peer({planned.n, planned.phase, made.network, made.single, made.ensemble,
                              separate(made.single, made.ensemble), planned.mode},
                             {settings.peer, settings.peer_lacks, settings.budget_s,
                              settings.min_samples, settings.threads},
                             alive);
  for (Timing& timing : peer.timings) result->baselines.push_back(std::move(timing));
  for (Trial& t : result->trials) compare(t, result->baselines, result->disturbed, settings.seed);
  for (std::string& absent : peer.absent) result->notes.push_back(std::move(absent));
}

/// Number of ranges of the fastest trial.
int fastest_ranges(const ContestResult& held) {
  const TriedCandidate* best = nullptr;
  for (const TriedCandidate& t : held.trials)
    if (t.model && t.trial.status == Status::ok &&
        (best == nullptr || t.trial.timing.median_ns < best->trial.timing.median_ns))
      best = &t;
  return best == nullptr ? 1 : best->model->ranges();
}

/// The strategy that the engine would choose among those that ran; "" if none ran. `keys`: the keys
/// that it looked up in the tuning table.
std::string automatic_strategy(const SweepCase& planned, const SweepSettings& settings,
                               const PreparedCase& made, int ranges, const Case& result,
                               std::vector<TuningKey>* keys) {
  const Target& target = *planned.target;
  if (target.strategies.empty()) return kChosen;  // this trial is the engine's choice
  std::vector<std::string> able;
  std::set<std::string> ran;
  for (const Trial& t : result.trials) {
    if (t.status == Status::ok) able.push_back(t.strategy);
    if (t.status == Status::ok || t.status == Status::incorrect) ran.insert(t.strategy);
  }
  if (able.size() < 2) return able.empty() ? "" : able.front();
  CompileOptions options = compile_options(planned, settings);
  options.ranges = ranges;
  // Choosing runs the strategies: leave out those that failed, as they may have ended a worker.
  for (const Strategy& s : target.strategies)
    if (!ran.count(s.name)) options.widen.never.insert(target.name + "/" + s.name);
  StrategyChoice choice =
      choose_strategies(made.network, made.ensemble, options, made.single, target.name);
  *keys = std::move(choice.keys);
  for (const CoverageItem& item : choice.coverage.items)
    if (item.primitive == target.name && !item.strategy.empty()) return item.strategy;
  return "vmap";
}

/// Stores the fastest of the strategies that the engine chooses from in the tuning table.
void remember_winner(const Target& target, const Case& result, const std::vector<TuningKey>& keys) {
  const Timing* best = nullptr;
  for (const Trial& t : result.trials) {
    const Strategy* s = target.strategy(t.strategy);
    if (t.status != Status::ok || !s || s->only_when_asked) continue;
    if (!best || t.timing.median_ns < best->median_ns) best = &t.timing;
  }
  if (!best || result.disturbed) return;
  for (const TuningKey& key : keys) tuning_table().store(key, {best->name, best->median_ns});
}

/// Marks the trial that the engine would choose; then stores the winner in the tuning table.
void mark_chosen(const SweepCase& planned, const SweepSettings& settings, const PreparedCase& made,
                 int ranges, Case* result) {
  const Clocked clocked(&result->seconds.compile);
  std::vector<TuningKey> keys;
  std::string automatic;
  try {
    automatic = automatic_strategy(planned, settings, made, ranges, *result, &keys);
  } catch (const std::exception&) {
    return;  // no trial is marked; their results stay
  }
  for (Trial& t : result->trials) t.chosen = t.status == Status::ok && t.strategy == automatic;
  remember_winner(*planned.target, *result, keys);
}

}  // namespace

Case run_case(const SweepCase& planned, const SweepSettings& settings, Stages& stages) {
  const at::NoGradGuard no_grad;
  const double begun = now_ns();
  Case result = empty_case(planned);
  PreparedCase made;
  stages.begin("case", "");
  try {
    if (const auto why = unsupported(planned.mode, planned.device)) throw Unsupported(*why);
    prepare_case(planned, settings, stages, &made, &result);
    if (made.fits) {
      ContestResult held = run_contest(contest_of(planned, settings, made), stages);
      const int ranges = fastest_ranges(held);
      after_trials("case", made, &result, [&] { explain_forms(made, held, &result); });
      take_results(std::move(held), &result);
      after_trials(kPeer, made, &result,
                   [&] { ask_torch_compile(planned, settings, stages, made, &result); });
      stages.begin("case", "");
      after_trials("case", made, &result,
                   [&] { mark_chosen(planned, settings, made, ranges, &result); });
    }
  } catch (...) {
    end_all(outcome_of(std::current_exception(), "", made.memory), &result);
  }
  result.seconds.total = (now_ns() - begun) * 1e-9;
  return result;
}

}  // namespace wide
