#include "app/sweep/run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "app/sweep/estimate.h"
#include "app/sweep/text.h"
#include "app/trial/contest.h"
#include "app/trial/peer.h"
#include "data/reports/sweep/explanation.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/measure/clock.h"
#include "engine/measure/roofline.h"
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

constexpr double kLongestCall = 50;           // in budgets: what takes longer is not tried
constexpr double kEagerBytesPerSecond = 5e9;  // operator by operator, results in fresh memory
constexpr double kLongToCheckS = 0.3;         // a call by estimate

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
      if (fits()) {
        take(hold(contest(), stages_));
        if (!settings_.peer.empty()) ask();
        stages_.begin("case", "");
        choose();
      }
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
    const bool grad = planned_.phase != "forward";
    if (target_.may_not_fit) return record_dry(network, planned_.dtype, grad);
    return record_single(
        network, generate(network, 1, planned_.dtype, planned_.device, settings_.seed), grad);
  }

  /// The phase's network of `forward`, and its Program(1).
  std::pair<Network, Program> of_phase(const Network& forward) const {
    Program plain = record_one(forward);
    Network network = phase_network(forward, plain, planned_.phase, target_.optimizer);
    if (network.derivative) plain = record_one(network);
    return {std::move(network), std::move(plain)};
  }

  void make_case() {
    const Clocked clocked(&result_.seconds.setup);
    std::tie(network_, single_) = of_phase(target_.network(planned_.shape));
    if (target_.may_not_fit) return;
    memory_ = {estimate_bytes(single_, planned_.n), available()};
    stages_.memory(memory_.needed, memory_.available);
    if (memory_.needed > memory_.available)
      throw Error(out_of_memory_text(target_.name, "no attempt", memory_), 5);
    make_data();
  }

  /// Bytes that can be had where the case runs.
  int64_t available() const {
    const auto memory = device_memory(planned_.device);
    return memory ? memory->free : available_memory();
  }

  void make_data() {
    ensemble_ = generate(network_, planned_.n, planned_.dtype, planned_.device, settings_.seed);
  }

  /// Of a target that may not fit: whether anything of the case is to be tried, by time and memory.
  bool fits() {
    if (!target_.may_not_fit) return true;
    const Clocked clocked(&result_.seconds.setup);
    const double passes = planned_.phase == "forward" ? 1 : 3.5;
    if (const double call_s = passes * estimate_call_s(planned_);
        call_s > kLongestCall * budget_s()) {
      leave_out(Status::skipped, long_call_text(target_.name, call_s), {});
      return false;
    }
    Program one = single_;
    if (!target_.samples.empty())
      one = of_phase(target_.network(Shape(planned_.shape).set(target_.samples, 1))).second;
    const CaseBytes bytes = estimate_case(network_, single_, one, planned_);
    memory_ = {bytes.without_loop(), available()};
    stages_.memory(memory_.needed, memory_.available);
    for (Trial& t : result_.trials) t.needed_bytes = bytes.compiled;
    if (memory_.needed > memory_.available) {
      leave_out(Status::oom, out_of_memory_text(target_.name, "no attempt", memory_), bytes);
      return false;
    }
    const double loop_s =
        static_cast<double>(planned_.n) * count_traffic(single_).bytes / kEagerBytesPerSecond;
    if (const MemoryNeed all{bytes.with_loop(), memory_.available}; all.needed > all.available)
      leave_out_loop(Status::oom, out_of_memory_text("loop", "no attempt", all), bytes.loop);
    else if (loop_s > kLongestCall * budget_s())
      leave_out_loop(Status::skipped, long_call_text("loop", loop_s), bytes.loop);
    make_data();
    if (!target_.samples.empty()) one_sample_ = std::move(one);
    return true;
  }

  double budget_s() const { return settings_.budget_s; }

  std::string long_call_text(const std::string& what, double call_s) const {
    return fmt::format(
        "[{}] time: got {} a call by estimate, expected at most {}; try --budget {:.2g}", what,
        duration_text(call_s), duration_text(kLongestCall * budget_s()), call_s / kLongestCall);
  }

  void leave_out(Status status, const std::string& reason, const CaseBytes& bytes) {
    end_all({status, reason});
    leave_out_loop(status, reason, bytes.loop);
  }

  void leave_out_loop(Status status, const std::string& reason, int64_t needed) {
    result_.missing.push_back({"loop", status, reason, needed});
    no_baselines_ = true;
  }

  /// The samples whose results are held against float64: all, or of long calls the first and last.
  std::vector<int64_t> checked_samples() const {
    const int64_t count = planned_.shape[target_.samples];
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < count; ++i) samples.push_back(i);
    if (count > 2 && estimate_call_s(planned_) > kLongToCheckS) return {0, count - 1};
    return samples;
  }

  /// The form that people write by hand, in a loop; it must agree before anything is timed.
  Baseline optimised() {
    const auto [network, program] = of_phase(target_.optimised(planned_.shape));
    optimised_ = program;
    const double error = max_relative_error(separate(program, ensemble_.models(0, 1)),
                                            separate(single_, ensemble_.models(0, 1)));
    if (!(error <= target_.tolerance_for(planned_.dtype)))
      throw Error(fmt::format("[{}] optimised form: got a relative error of {} from the naive one "
                              "with the same weights, expected at most {}; try --phase forward",
                              target_.name, error_text(error),
                              error_text(target_.tolerance_for(planned_.dtype))),
                  4);
    Baseline loop = baselines(network, ensemble_, settings_.threads, [](const std::string& name) {
                      return name == "loop";
                    }).front();
    loop.name = "optimised";
    return loop;
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
    if (no_baselines_) c.baselines_off.insert("*");
    c.min_samples = settings_.min_samples;
    if (target_.optimised) c.own_baselines.push_back(optimised());
    if (one_sample_) {
      const std::vector<int64_t> samples = checked_samples();
      c.expected = [this, samples] {
        return expect_of_samples(network_, *one_sample_, ensemble_, samples);
      };
      c.compared = [samples](const Tensors& results) { return pick_samples(results, samples); };
    }
    c.memory = memory_;
    return c;
  }

  std::unique_ptr<CompiledModel> make(const std::string& strategy, double far_off_ns) const {
    CompileOptions options;
    options.mode = planned_.mode;
    options.autotune_s = settings_.budget_s;
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

  /// The same case in a Python that has torch; what it is not there for is said.
  void ask() {
    if (result_.trials.empty() || no_baselines_) return;
    const auto alive = [this] { stages_.begin("baseline", std::string(kBaselinePrefix) + kPeer); };
    alive();
    const Clocked clocked(&result_.seconds.baselines);
    PeerResult peer = ask_peer(
        {planned_.n, planned_.phase, network_, single_, ensemble_, separate(single_, ensemble_)},
        {settings_.peer, settings_.peer_lacks, settings_.budget_s, settings_.min_samples,
         settings_.threads},
        alive);
    for (Timing& timing : peer.timings) result_.baselines.push_back(std::move(timing));
    for (Trial& t : result_.trials)
      compare(t, result_.baselines, result_.disturbed, settings_.seed);
    for (std::string& absent : peer.absent) result_.notes.push_back(std::move(absent));
  }

  /// What the forms do in a call, of targets that have more than one.
  void explain(const ContestResult& held) {
    if (!target_.optimised) return;
    std::vector<const Timing*> timings;
    const auto add = [&](const char* form, const Traffic& t, double models, const Timing* timing) {
      timings.push_back(timing);
      result_.work.push_back({form, static_cast<int64_t>(models * double(t.operators)),
                              models * t.bytes, t.passes, models * t.flops});
    };
    const auto n = static_cast<double>(planned_.n);
    const auto baseline = [&](const char* name) -> const Timing* {
      for (const Timing& b : held.baselines)
        if (b.name == name) return &b;
      return nullptr;
    };
    add("naive", count_traffic(single_), n, baseline("loop"));
    add("optimised", count_traffic(without_preparing(optimised_)), n, baseline("optimised"));
    for (const ContestTrial& t : held.trials)
      if (t.model && t.trial.status == Status::ok) {
        add("compiled", count_traffic(t.model->program()), 1, &t.trial.timing);
        break;
      }
    result_.explanation = explanation_of(result_.work, timings);
  }

  /// What is made of weights alone is made once.
  static Program without_preparing(Program program) {
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

  void take(ContestResult held) {
    explain(held);
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
    options.autotune_s = settings_.budget_s;
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
  Program optimised_;                  // of the target's other form
  std::optional<Program> one_sample_;  // what is expected comes of it, sample by sample
  bool no_baselines_ = false;
  Ensemble ensemble_;
  Case result_;
};

}  // namespace

Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages) {
  return CaseRun(planned, settings, stages).run();
}

}  // namespace wide
