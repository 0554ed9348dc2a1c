#include "app/sweep/run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "app/fuse/fuse.h"
#include "app/results/table.h"
#include "app/trial/judge.h"
#include "data/machine/load.h"
#include "data/one_line.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/measure/clock.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

/// Adds the time until the end of its scope to `seconds`.
class Clocked {
 public:
  explicit Clocked(double* seconds) : seconds_(seconds), begun_ns_(now_ns()) {}
  ~Clocked() { *seconds_ += (now_ns() - begun_ns_) * 1e-9; }
  Clocked(const Clocked&) = delete;
  Clocked& operator=(const Clocked&) = delete;

 private:
  double* seconds_;
  double begun_ns_;
};

/// Why a compiled trial is not what its strategy says, or "".
std::string not_as_asked(const Target& target, const std::string& strategy,
                         const Coverage& coverage) {
  const bool chosen = strategy == kChosen && target.strategy(kChosen) == nullptr;
  if (chosen || strategy == "per_model") return "";
  if (strategy == "vmap") {
    for (const CoverageItem& item : coverage.items)
      if (item.way == Way::per_model)
        return fmt::format("[{}/vmap] {}: {}", target.name, item.op, printable(item.reason, 160));
    return "";
  }
  std::map<std::string, std::string> wanted{{target.name, strategy}};
  if (const auto parts = target.parts.find(strategy); parts != target.parts.end())
    wanted = parts->second;
  std::string why;
  for (const CoverageItem& item : coverage.items) {
    const auto part = wanted.find(item.primitive);
    if (part != wanted.end() && part->second == item.strategy) return "";
    if (why.empty()) why = item.reason;
  }
  return why.empty() ? fmt::format("[{}/{}] nothing that was recorded is its kind of call",
                                   target.name, strategy)
                     : printable(why, 200);
}

/// A trial and what runs it.
struct Running {
  Trial trial;
  std::unique_ptr<CompiledModel> model;
  Tensors drawn;  // of random networks: what one seed gave before timing
};

class CaseRun {
 public:
  CaseRun(const PlannedCase& planned, const SweepSettings& settings, Stages& stages)
      : planned_(planned),
        settings_(settings),
        target_(*planned.target),
        stages_(stages),
        result_(empty_case(planned)) {
    for (Trial& trial : result_.trials) running_.emplace_back().trial = std::move(trial);
    result_.trials.clear();
  }

  Case run() {
    const double begun = now_ns();
    Case done = run_all();
    done.seconds.total = (now_ns() - begun) * 1e-9;
    return done;
  }

 private:
  Case run_all() {
    const at::NoGradGuard no_grad;
    if (const auto why = unsupported(planned_.mode, planned_.device)) {
      end_all(Status::unsupported, *why);
      return finish();
    }
    Running whole;  // what goes wrong before the first trial goes wrong for all
    stages_.begin("case", "");
    guarded(whole, [&] { make_case(); });
    if (whole.trial.status != Status::ok) {
      end_all(whole.trial.status, whole.trial.reason);
      return finish();
    }
    for (Running& r : running_) {
      stages_.begin("prepare", r.trial.strategy);
      guarded(r, [&] { prepare(r); });
    }
    guarded(whole, [&] { time_all(); });
    if (whole.trial.status != Status::ok) end_all(whole.trial.status, whole.trial.reason);
    for (Running& r : running_) {
      if (r.trial.status != Status::ok) continue;
      stages_.begin("check", r.trial.strategy);
      guarded(r, [&] { check_after(r); });
    }
    stages_.begin("case", "");
    guarded(whole, [&] { choose(); });
    remember();
    compare();
    return finish();
  }

  void end_all(Status status, const std::string& reason) {
    for (Running& r : running_) end(r, status, reason);
  }

  static void end(Running& r, Status status, const std::string& reason) {
    r.trial.status = status;
    r.trial.reason = reason;
    r.model.reset();
  }

  std::string memory_reason(const Running& r, const std::string& got) const {
    return out_of_memory_text(r.trial.strategy.empty() ? "case" : r.trial.strategy, got, needed_,
                              available_);
  }

  /// What goes wrong inside one trial ends that trial only.
  void guarded(Running& r, const std::function<void()>& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      end(r, Status::oom, memory_reason(r, "an allocation refused"));
    } catch (const Error& e) {
      // Exit code 5 is memory; any other refusal says what is not supported.
      end(r, e.exit_code() == 5 ? Status::oom : Status::unsupported, printable(e.what(), 300));
    } catch (const c10::Error& e) {
      const std::string text = one_line(e);
      const bool memory = text.find("allocate memory") != std::string::npos ||
                          text.find("out of memory") != std::string::npos;
      if (memory)
        end(r, Status::oom, memory_reason(r, printable(text, 120)));
      else
        end(r, Status::crashed, text);
    } catch (const std::exception& e) {
      end(r, Status::crashed, one_line(e));
    }
  }

  Program record_one(const Network& network) const {
    return record_single(network,
                         generate(network, 1, planned_.dtype, planned_.device, settings_.seed));
  }

  void make_case() {
    const Clocked clocked(&result_.seconds.setup);
    const Network forward = target_.network(planned_.shape);
    const Program plain = record_one(forward);
    network_ = phase_network(forward, plain, planned_.phase);
    single_ = network_.derivative ? record_one(network_) : plain;
    needed_ = estimate_bytes(single_, planned_.n);
    available_ = available_memory();
    stages_.memory(needed_, available_);
    if (planned_.device.is_cpu() && needed_ > available_)
      throw Error(out_of_memory_text(target_.name, "no attempt", needed_, available_), 5);
    ensemble_ = generate(network_, planned_.n, planned_.dtype, planned_.device, settings_.seed);
    inputs_ = pick(network_, ensemble_, true);
    weights_ = pick(network_, ensemble_, false);
    expected_ = expect(network_, single_, ensemble_);
  }

  Correctness full_check(Running& r) {
    const Clocked clocked(&result_.seconds.check);
    // The strategy that shares one mask must be found to do so.
    const bool masks_shared = network_.random && r.trial.strategy == "shared";
    const Correctness c = check(network_, single_, ensemble_, as_function(*r.model, network_),
                                target_.tolerance_for(planned_.dtype), masks_shared, &expected_,
                                /*run_again=*/false);  // `check_after` does
    r.model->set_weights(weights_);
    return c;
  }

  void prepare(Running& r) {
    CompileOptions options;
    options.mode = planned_.mode;
    options.threads = settings_.threads;
    options.widen = widen_options(target_, r.trial.strategy, settings_.forced);
    options.far_off_ns = 2 * best_call_ns_;
    if (r.trial.strategy == "vmap") {
      // What has no rule shows with one model too, before the best way of running it is searched.
      const Clocked clocked(&result_.seconds.compile);
      const std::string why = no_rule(options);
      if (!why.empty()) {
        end(r, Status::unsupported, why);
        return;
      }
    }
    {
      const Clocked clocked(&result_.seconds.compile);
      const double start = now_ns();
      r.model = compile(network_, ensemble_, options, single_);
      double call = 0;
      r.trial.timing.peak_bytes = candidate_bytes(ensemble_, *r.model, planned_.device, [&] {
        const double begun = now_ns();
        r.model->run(inputs_);
        synchronize(planned_.device);
        call = now_ns() - begun;
      });
      r.trial.timing.first_call_ns = now_ns() - start;
      best_call_ns_ = best_call_ns_ == 0 ? call : std::min(best_call_ns_, call);
    }
    const std::string why = not_as_asked(target_, r.trial.strategy, r.model->coverage());
    if (!why.empty()) {
      end(r, Status::unsupported, why);
      return;
    }
    judge(r, full_check(r));
    if (network_.random) r.drawn = draw(r);
  }

  std::string no_rule(CompileOptions options) const {
    options.tune = false;
    const auto one = compile(network_, ensemble_.models(0, 1), options, single_);
    return not_as_asked(target_, "vmap", one->coverage());
  }

  /// The results of one seed, always the same one.
  Tensors draw(Running& r) const {
    at::manual_seed(settings_.seed);
    Tensors results;
    for (const Tensor& t : r.model->run(inputs_)) results.push_back(t.clone());
    return results;
  }

  static void judge(Running& r, const Correctness& correctness) {
    r.trial.correctness = correctness;
    if (correctness.pass) return;
    r.trial.status = Status::incorrect;
    r.trial.reason = printable(correctness.failure, 300);
  }

  void check_after(Running& r) {
    const Clocked clocked(&result_.seconds.check);
    Correctness c = *r.trial.correctness;
    if (network_.random) {
      // Its statistics were checked before; timing may not have changed what a seed draws.
      const Tensors now = draw(r);
      for (size_t k = 0; k < now.size(); ++k)
        if (!now[k].equal(r.drawn[k])) {
          c.pass = false;
          c.failure = fmt::format("after timing: output {} differs from before for one seed", k);
        }
      judge(r, c);
      return;
    }
    const double error = max_relative_error(r.model->run(inputs_), expected_.reference);
    c.max_rel = std::max(c.max_rel, error);
    if (!(error <= allowed(c))) {
      c.pass = false;
      c.failure = fmt::format("after timing: relative error {}, expected at most {}",
                              error_text(error), error_text(allowed(c)));
    }
    judge(r, c);
  }

  void time_all() {
    const double tolerance = std::max(1e-2, target_.tolerance_for(planned_.dtype));
    std::vector<std::string> notes;
    const auto wanted = [this](const std::string& name) {
      const auto& these = settings_.baselines;
      if (!these.empty() && std::find(these.begin(), these.end(), name) == these.end())
        return false;
      if (settings_.baselines_off.count(name)) return false;
      stages_.begin("baseline", kBaselinePrefix + name);
      return true;
    };
    std::vector<Entrant> entrants;
    if (!settings_.baselines_off.count("*")) {
      stages_.begin("baseline", std::string(kBaselinePrefix) + "*");
      const Clocked clocked(&result_.seconds.baselines);
      for (const Baseline& b :
           honest_baselines(network_, ensemble_, settings_.threads, expected_.reference, tolerance,
                            &notes, nullptr, wanted))
        entrants.push_back({b.name, b.call, nullptr, {}});
    }
    const size_t baselines = entrants.size();
    // The permuted inputs have served; their memory has what stacking asks for.
    const auto packed = std::make_shared<Tensors>(pick(network_, expected_.permuted, true));
    for (Running& r : running_)
      if (r.model)
        entrants.push_back({r.trial.strategy, repeated_call(*r.model, network_, inputs_), &r,
                            planned_.phase == "step"
                                ? std::function<void()>()
                                : packing_call(*r.model, ensemble_, network_, packed)});
    expected_.permuted = {};
    const LoadWatch watch;
    // Who fails in the middle leaves, and the others are timed without it.
    bool timed = entrants.size() == baselines;
    while (!timed) timed = time_once(entrants);
    result_.other_load = watch.other_load();
    result_.disturbed = result_.other_load > kDisturbedShare;
  }

  /// One of those who are timed: a baseline, or a trial.
  struct Entrant {
    std::string name;
    std::function<void()> call;
    Running* running;
    std::function<void()> call_with_packing;
  };

  /// False when somebody failed and was taken out.
  bool time_once(std::vector<Entrant>& entrants) {
    std::vector<Contender> contenders;
    std::vector<std::string> names;
    size_t current = 0;
    for (const Entrant& e : entrants) {
      const size_t index = contenders.size();
      names.push_back(e.running ? e.name : kBaselinePrefix + e.name);
      std::function<void()> packing;
      if (e.call_with_packing)
        packing = [&current, index, this, call = e.call_with_packing] {
          stages_.call(current = index);
          call();
        };
      contenders.push_back({e.name, e.running ? "candidate" : "baseline",
                            [&current, index, this, call = e.call] {
                              stages_.call(current = index);
                              call();
                            },
                            planned_.device, packing, /*has_run=*/e.running != nullptr});
    }
    MeasureOptions how;
    how.budget_s = settings_.budget_s;
    how.seed = settings_.seed;
    stages_.time(names);
    const Clocked clocked(&result_.seconds.timing);
    std::vector<Timing> timings;
    Running failed;
    guarded(failed, [&] { timings = measure(contenders, how); });
    if (failed.trial.status != Status::ok) {
      if (Running* culprit = entrants[current].running)
        end(*culprit, failed.trial.status, failed.trial.reason);
      entrants.erase(entrants.begin() + static_cast<ptrdiff_t>(current));
      return entrants.empty();
    }
    const bool known = planned_.phase == "forward" && target_.flops;
    const CaseJudge judge(single_, ensemble_, planned_.device, planned_.dtype, settings_.threads,
                          known ? target_.flops(planned_.shape) : 0);
    for (size_t i = 0; i < entrants.size(); ++i) {
      Timing& t = timings[i];
      if (!entrants[i].running) {
        judge.baseline(t);
        result_.baselines.push_back(std::move(t));
        continue;
      }
      Timing& kept = entrants[i].running->trial.timing;
      t.first_call_ns = kept.first_call_ns;
      t.peak_bytes = kept.peak_bytes;
      judge.candidate(t, *entrants[i].running->model);
      kept = std::move(t);
    }
    return true;
  }

  /// What the engine would take by itself, before it is told what won.
  void choose() {
    const Clocked clocked(&result_.seconds.compile);
    std::vector<std::string> able;
    for (const Running& r : running_)
      if (r.trial.status == Status::ok) able.push_back(r.trial.strategy);
    if (able.size() == 1) automatic_ = able.front();
    if (target_.strategies.empty()) automatic_ = kChosen;  // one trial is just that
    if (!automatic_.empty()) return;
    if (able.size() < 2) return;
    CompileOptions options;
    options.mode = planned_.mode;
    options.threads = settings_.threads;
    // Compiling tries what it chooses from: nothing that may have taken a worker with it.
    for (const Strategy& s : target_.strategies)
      if (!ran(s.name)) options.widen.never.insert(target_.name + "/" + s.name);
    const auto model = compile(network_, ensemble_, options, single_);
    automatic_ = automatic_strategy(target_, *model, &keys_);
    if (automatic_.empty()) automatic_ = "vmap";
  }

  bool ran(const std::string& strategy) const {
    return std::any_of(running_.begin(), running_.end(), [&](const Running& r) {
      return r.trial.strategy == strategy &&
             (r.trial.status == Status::ok || r.trial.status == Status::incorrect);
    });
  }

  /// The table learns what won among the strategies that the engine chooses from.
  void remember() const {
    const Timing* best = nullptr;
    for (const Running& r : running_) {
      const Strategy* s = target_.strategy(r.trial.strategy);
      if (r.trial.status != Status::ok || !s || s->only_when_asked) continue;
      if (!best || r.trial.timing.median_ns < best->median_ns) best = &r.trial.timing;
    }
    if (!best || result_.disturbed) return;
    for (const TuningKey& key : keys_) tuning_table().store(key, {best->name, best->median_ns});
  }

  void compare() {
    for (Running& r : running_) {
      Trial& t = r.trial;
      if (t.status != Status::ok) continue;
      t.chosen = t.strategy == automatic_;
      if (result_.baselines.empty()) continue;
      t.speedup = speedup_of(result_.baselines, t.timing, settings_.seed);
      t.verdict = verdict(t.speedup->vs_best);
    }
  }

  Case finish() {
    for (Running& r : running_) result_.trials.push_back(std::move(r.trial));
    return std::move(result_);
  }

  const PlannedCase& planned_;
  const SweepSettings& settings_;
  const Target& target_;
  Stages& stages_;
  Network network_;
  int64_t needed_ = 0, available_ = 0;  // bytes
  Program single_;
  Ensemble ensemble_;
  Tensors inputs_, weights_;
  double best_call_ns_ = 0;  // of the trials prepared so far, untimed
  Expected expected_;
  std::vector<Running> running_;
  std::string automatic_;  // the strategy that the engine takes
  std::vector<TuningKey> keys_;
  Case result_;
};

}  // namespace

std::string out_of_memory_text(const std::string& thing, const std::string& got, int64_t needed,
                               int64_t available) {
  return fmt::format(
      "[{}] memory: got {}, expected enough ({} needed by estimate, {} available); try fewer "
      "models",
      thing, got, bytes_text(static_cast<double>(needed)),
      bytes_text(static_cast<double>(available)));
}

Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages) {
  return CaseRun(planned, settings, stages).run();
}

}  // namespace wide
