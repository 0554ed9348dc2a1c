#include "app/sweep/run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "app/trial/contest.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/measure/clock.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

/// Throws where a compiled trial is not what its strategy says.
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

class CaseRun {
 public:
  CaseRun(const PlannedCase& planned, const SweepSettings& settings, Stages& stages)
      : planned_(planned),
        settings_(settings),
        target_(*planned.target),
        stages_(stages),
        result_(empty_case(planned)) {}

  Case run() {
    const at::NoGradGuard no_grad;
    const double begun = now_ns();
    stages_.begin("case", "");
    try {
      if (const auto why = unsupported(planned_.mode, planned_.device)) throw Unsupported(*why);
      make_case();
      take(hold(contest(), stages_));
      stages_.begin("case", "");
      choose();
    } catch (...) {
      end_all(outcome_of(std::current_exception(), "", memory_));
    }
    result_.seconds.total = (now_ns() - begun) * 1e-9;
    return std::move(result_);
  }

 private:
  /// What goes wrong outside of a trial goes wrong for all.
  void end_all(const Outcome& outcome) {
    for (Trial& t : result_.trials) {
      t.status = outcome.status;
      t.reason = outcome.reason;
    }
  }

  Program record_one(const Network& network) const {
    return record_single(network,
                         generate(network, 1, planned_.dtype, planned_.device, settings_.seed),
                         /*grad=*/planned_.phase != "forward");
  }

  void make_case() {
    const Clocked clocked(&result_.seconds.setup);
    const Network forward = target_.network(planned_.shape);
    const Program plain = record_one(forward);
    network_ = phase_network(forward, plain, planned_.phase);
    single_ = network_.derivative ? record_one(network_) : plain;
    memory_ = {estimate_bytes(single_, planned_.n), available_memory()};
    stages_.memory(memory_.needed, memory_.available);
    if (planned_.device.is_cpu() && memory_.needed > memory_.available)
      throw Error(out_of_memory_text(target_.name, "no attempt", memory_), 5);
    ensemble_ = generate(network_, planned_.n, planned_.dtype, planned_.device, settings_.seed);
  }

  Contest contest() {
    Contest c{network_, single_, ensemble_};
    for (const std::string& strategy : planned_.strategies)
      c.candidates.push_back(
          {strategy, [this, strategy](double far_off_ns) { return make(strategy, far_off_ns); },
           // The strategy that shares one mask must be found to do so.
           network_.random && strategy == "shared"});
    c.device = planned_.device;
    c.dtype = planned_.dtype;
    c.phase = planned_.phase;
    c.tolerance = target_.tolerance_for(planned_.dtype);
    c.budget_s = settings_.budget_s;
    c.seed = settings_.seed;
    c.threads = settings_.threads;
    if (planned_.phase == "forward" && target_.flops) c.flops = target_.flops(planned_.shape);
    c.baselines = settings_.baselines;
    c.baselines_off = settings_.baselines_off;
    c.memory = memory_;
    return c;
  }

  std::unique_ptr<CompiledModel> make(const std::string& strategy, double far_off_ns) const {
    CompileOptions options;
    options.mode = planned_.mode;
    options.threads = settings_.threads;
    options.widen = widen_options(target_, strategy, settings_.forced);
    options.far_off_ns = far_off_ns;
    if (strategy == "vmap") {
      // What has no rule shows with one model too, before the best way of running it is searched.
      CompileOptions untuned = options;
      untuned.tune = false;
      const auto one = compile(network_, ensemble_.models(0, 1), untuned, single_);
      expect_strategy(target_, strategy, one->coverage());
    }
    std::unique_ptr<CompiledModel> model = compile(network_, ensemble_, options, single_);
    expect_strategy(target_, strategy, model->coverage());
    return model;
  }

  void take(ContestResult held) {
    held.seconds.setup += result_.seconds.setup;
    result_.seconds = held.seconds;
    result_.baselines = std::move(held.baselines);
    result_.notes = std::move(held.notes);
    result_.other_load = held.other_load;
    result_.disturbed = held.disturbed;
    for (size_t i = 0; i < held.trials.size(); ++i)
      result_.trials[i] = std::move(held.trials[i].trial);
  }

  /// Marks what the engine would take by itself, and then tells it what won.
  void choose() {
    const Clocked clocked(&result_.seconds.compile);
    std::vector<TuningKey> keys;
    std::string automatic;
    try {
      automatic = automatic_strategy(&keys);
    } catch (const std::exception&) {
      return;  // nothing is chosen; the trials are what they are
    }
    for (Trial& t : result_.trials) t.chosen = t.status == Status::ok && t.strategy == automatic;
    remember(keys);
  }

  std::string automatic_strategy(std::vector<TuningKey>* keys) const {
    if (target_.strategies.empty()) return kChosen;  // one trial is just that
    std::vector<std::string> able;
    for (const Trial& t : result_.trials)
      if (t.status == Status::ok) able.push_back(t.strategy);
    if (able.size() < 2) return able.empty() ? "" : able.front();
    CompileOptions options;
    options.mode = planned_.mode;
    options.threads = settings_.threads;
    // Compiling tries what it chooses from: nothing that may have taken a worker with it.
    for (const Strategy& s : target_.strategies)
      if (!ran(s.name)) options.widen.never.insert(target_.name + "/" + s.name);
    const auto model = compile(network_, ensemble_, options, single_);
    *keys = model->tuning_keys(target_.name);
    for (const CoverageItem& item : model->coverage().items)
      if (item.primitive == target_.name && !item.strategy.empty()) return item.strategy;
    return "vmap";
  }

  bool ran(const std::string& strategy) const {
    return std::any_of(result_.trials.begin(), result_.trials.end(), [&](const Trial& t) {
      return t.strategy == strategy && (t.status == Status::ok || t.status == Status::incorrect);
    });
  }

  /// The table learns what won among the strategies that the engine chooses from.
  void remember(const std::vector<TuningKey>& keys) const {
    const Timing* best = nullptr;
    for (const Trial& t : result_.trials) {
      const Strategy* s = target_.strategy(t.strategy);
      if (t.status != Status::ok || !s || s->only_when_asked) continue;
      if (!best || t.timing.median_ns < best->median_ns) best = &t.timing;
    }
    if (!best || result_.disturbed) return;
    for (const TuningKey& key : keys) tuning_table().store(key, {best->name, best->median_ns});
  }

  const PlannedCase& planned_;
  const SweepSettings& settings_;
  const Target& target_;
  Stages& stages_;
  Network network_;
  MemoryNeed memory_;
  Program single_;
  Ensemble ensemble_;
  Case result_;
};

}  // namespace

Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages) {
  return CaseRun(planned, settings, stages).run();
}

}  // namespace wide
