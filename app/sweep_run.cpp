#include "app/sweep_run.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "app/fuse_run.h"
#include "app/table.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

double now_ns() {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

/// Why a compiled trial is not what its strategy says, or "".
std::string not_as_asked(const Target& target, const std::string& strategy,
                         const Coverage& coverage) {
  if (strategy == kChosen || strategy == "per_model") return "";
  if (strategy == "vmap") {
    for (const CoverageItem& item : coverage.items)
      if (item.way == Way::per_model)
        return fmt::format("[{}/vmap] {}: {}", target.name, item.op, printable(item.reason, 160));
    return "";
  }
  std::string why;
  for (const CoverageItem& item : coverage.items) {
    if (item.primitive == target.name && item.strategy == strategy) return "";
    if (why.empty()) why = item.reason;
  }
  return why.empty() ? fmt::format("[{}/{}] nothing that was recorded is its kind of call",
                                   target.name, strategy)
                     : printable(why, 200);
}

/// A trial and what runs it.
struct Running {
  Trial trial;
  std::unique_ptr<WideModel> model;
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
    const at::NoGradGuard no_grad;
    if (const auto why = unsupported(planned_.mode, planned_.device)) {
      end_all(Status::unsupported, *why);
      return finish();
    }
    if (planned_.phase != "forward") {
      end_all(Status::unsupported,
              reason("phase", planned_.phase, "a phase without a lowering",
                     "forward, which is what this version runs", "--phase forward"));
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
    compare();
    return finish();
  }

 private:
  void end_all(Status status, const std::string& reason) {
    for (Running& r : running_) end(r, status, reason);
  }

  static void end(Running& r, Status status, const std::string& reason) {
    r.trial.status = status;
    r.trial.reason = reason;
    r.model.reset();
  }

  /// What goes wrong inside one trial ends that trial only.
  static void guarded(Running& r, const std::function<void()>& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      end(r, Status::oom, "ran out of memory");
    } catch (const Error& e) {
      // Exit code 5 is memory; any other refusal says what is not supported.
      end(r, e.exit_code() == 5 ? Status::oom : Status::unsupported, printable(e.what(), 300));
    } catch (const c10::Error& e) {
      const std::string text = one_line(e);
      const bool memory = text.find("allocate memory") != std::string::npos ||
                          text.find("out of memory") != std::string::npos;
      end(r, memory ? Status::oom : Status::crashed, text);
    } catch (const std::exception& e) {
      end(r, Status::crashed, one_line(e));
    }
  }

  void make_case() {
    network_ = target_.network(planned_.shape);
    single_ = record_single(network_,
                            generate(network_, 1, planned_.dtype, planned_.device, settings_.seed));
    const int64_t need = estimate_bytes(single_, planned_.n), have = available_memory();
    stages_.memory(need, have);
    if (planned_.device.is_cpu() && need > have)
      throw Error(fmt::format("needs {}, {} are available", bytes_text(static_cast<double>(need)),
                              bytes_text(static_cast<double>(have))),
                  5);
    ensemble_ = generate(network_, planned_.n, planned_.dtype, planned_.device, settings_.seed);
    inputs_ = pick(network_, ensemble_, true);
    weights_ = pick(network_, ensemble_, false);
    if (!network_.random) expected_ = {reference(single_, ensemble_), separate(single_, ensemble_)};
  }

  Correctness full_check(Running& r) {
    // The strategy that shares one mask must be found to do so.
    const bool masks_shared = network_.random && r.trial.strategy == "shared";
    const Correctness c = check(network_, single_, ensemble_, as_function(*r.model, network_),
                                target_.tolerance_for(planned_.dtype), masks_shared,
                                network_.random ? nullptr : &expected_);
    r.model->set_weights(weights_);
    return c;
  }

  void prepare(Running& r) {
    CompileOptions options;
    options.mode = planned_.mode;
    options.threads = settings_.threads;
    options.widen = widen_options(target_, r.trial.strategy, settings_.forced);
    options.far_off_ns = 4 * best_call_ns_;
    const double start = now_ns();
    r.model = compile(network_, ensemble_, options);
    r.model->run(inputs_);
    const double compiled = now_ns();
    r.trial.timing.first_call_ns = compiled - start;
    r.model->run(inputs_);
    const double call = now_ns() - compiled;
    best_call_ns_ = best_call_ns_ == 0 ? call : std::min(best_call_ns_, call);
    r.trial.timing.peak_bytes = r.model->bytes();
    const std::string why = not_as_asked(target_, r.trial.strategy, r.model->coverage());
    if (!why.empty()) {
      end(r, Status::unsupported, why);
      return;
    }
    judge(r, full_check(r));
    if (network_.random) r.drawn = draw(r);
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
      for (const Baseline& b : honest_baselines(network_, ensemble_, settings_.threads,
                                                expected_.reference, tolerance, &notes, wanted))
        entrants.push_back({b.name, b.call, nullptr});
    }
    const size_t baselines = entrants.size();
    for (Running& r : running_)
      if (r.model) entrants.push_back({r.trial.strategy, [&] { r.model->run(inputs_); }, &r});
    // Who fails in the middle leaves, and the others are timed without it.
    bool timed = entrants.size() == baselines;
    while (!timed) timed = time_once(entrants);
  }

  /// One of those who are timed: a baseline, or a trial.
  struct Entrant {
    std::string name;
    std::function<void()> call;
    Running* running;
  };

  /// False when somebody failed and was taken out.
  bool time_once(std::vector<Entrant>& entrants) {
    std::vector<Contender> contenders;
    std::vector<std::string> names;
    size_t current = 0;
    for (const Entrant& e : entrants) {
      const size_t index = contenders.size();
      names.push_back(e.running ? e.name : kBaselinePrefix + e.name);
      contenders.push_back({e.name, e.running ? "candidate" : "baseline",
                            [&current, index, this, call = e.call] {
                              stages_.call(current = index);
                              call();
                            },
                            planned_.device});
    }
    MeasureOptions how;
    how.budget_s = settings_.budget_s;
    how.seed = settings_.seed;
    stages_.time(names);
    std::vector<Timing> timings;
    Running failed;
    guarded(failed, [&] { timings = measure(contenders, how); });
    if (failed.trial.status != Status::ok) {
      if (Running* culprit = entrants[current].running)
        end(*culprit, failed.trial.status, failed.trial.reason);
      entrants.erase(entrants.begin() + static_cast<ptrdiff_t>(current));
      return entrants.empty();
    }
    for (size_t i = 0; i < entrants.size(); ++i) {
      Timing& t = timings[i];
      if (!entrants[i].running) {
        t.peak_bytes = separate_bytes(single_, planned_.n);
        result_.baselines.push_back(std::move(t));
        continue;
      }
      Timing& kept = entrants[i].running->trial.timing;
      t.first_call_ns = kept.first_call_ns;
      t.peak_bytes = kept.peak_bytes;
      kept = std::move(t);
    }
    return true;
  }

  void compare() {
    bool chosen = false;  // the engine takes the first that applies
    for (Running& r : running_) {
      Trial& t = r.trial;
      if (t.status != Status::ok) continue;
      if (!chosen && t.strategy != "per_model") chosen = t.chosen = true;
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
  Program single_;
  Ensemble ensemble_;
  Tensors inputs_, weights_;
  double best_call_ns_ = 0;  // of the trials prepared so far, untimed
  Expected expected_;
  std::vector<Running> running_;
  Case result_;
};

}  // namespace

Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages) {
  return CaseRun(planned, settings, stages).run();
}

}  // namespace wide
