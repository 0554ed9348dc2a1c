#include "app/trial/contest.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "app/trial/correct_baselines.h"
#include "app/trial/judge.h"
#include "data/machine/gpu.h"
#include "data/machine/load.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/machine/clock.h"
#include "engine/machine/large_pages.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

/// Copies the tensors, as baselines have their own copies too.
Tensors copies(Tensors tensors) {
  for (Tensor& t : tensors) t = copy_to_keep(t);
  return tensors;
}

/// A contest while it runs: `run` has its steps in order.
class RunningContest {
 public:
  RunningContest(const Contest& contest, Stages& stages)
      : contest_(contest),
        stages_(stages),
        inputs_(copies(pick(contest.network, contest.ensemble, true))),
        weights_(pick(contest.network, contest.ensemble, false)) {}

  ContestResult run() {
    {
      const Clocked clocked(&result_.seconds.setup);
      expected_ = contest_.expected ? contest_.expected()
                                    : expect(contest_.network, contest_.single, contest_.ensemble);
    }
    drawn_.resize(contest_.candidates.size());
    for (const Candidate& candidate : contest_.candidates) {
      TriedCandidate& t = result_.trials.emplace_back();
      t.trial.strategy = t.trial.timing.name = candidate.name;
      t.trial.timing.kind = "candidate";
    }
    for (size_t i = 0; i < result_.trials.size(); ++i) {
      stages_.begin("prepare", contest_.candidates[i].name);
      guarded(result_.trials[i], [&] { prepare(i); });
    }
    const bool any = std::ranges::any_of(
        result_.trials, [](const TriedCandidate& t) { return t.model != nullptr; });
    if (any) time_all();
    for (size_t i = 0; i < result_.trials.size(); ++i) {
      TriedCandidate& t = result_.trials[i];
      // Wrong results are kept too, since the user asked for them; the report says that they are
      // wrong.
      if (!t.model || (t.trial.status != Status::ok && !contest_.keep_results)) continue;
      stages_.begin("check", contest_.candidates[i].name);
      guarded(t, [&] { check_after(i); });
    }
    for (TriedCandidate& t : result_.trials)
      compare(t.trial, result_.baselines, result_.disturbed, contest_.seed);
    return std::move(result_);
  }

 private:
  /// A contender being timed: a candidate with its index, or a baseline.
  struct Timed {
    Contender contender;
    std::optional<size_t> candidate;
  };

  /// Runs `work`; an exception ends this trial only.
  void guarded(TriedCandidate& t, const std::function<void()>& work) const {
    try {
      work();
    } catch (...) {
      end(t, std::current_exception());
    }
  }

  void end(TriedCandidate& t, std::exception_ptr thrown) const {
    expect_working(
        contest_.device);  // throws for a broken device, so that the next trial is not blamed
    const Outcome outcome = outcome_of(thrown, t.trial.strategy, contest_.memory);
    t.trial.status = outcome.status;
    t.trial.reason = outcome.reason;
    t.thrown = std::move(thrown);
    t.model.reset();
  }

  static void judge(Trial& trial, const Correctness& correctness) {
    trial.correctness = correctness;
    if (correctness.pass) return;
    trial.status = Status::incorrect;
    trial.reason = printable(correctness.failure, 300);
  }

  static void fail_check(Trial& trial, std::string why) {
    Correctness c = *trial.correctness;
    c.pass = false;
    c.failure = std::move(why);
    judge(trial, c);
  }

  void prepare(size_t i) {
    TriedCandidate& t = result_.trials[i];
    Timing& timing = t.trial.timing;
    {
      const Clocked clocked(&result_.seconds.compile);
      const double start = now_ns();
      t.model = contest_.candidates[i].compile(2 * best_call_ns_);
      double call = 0;
      timing.peak_bytes = candidate_bytes(contest_.ensemble, *t.model, contest_.device, [&] {
        const double begun = now_ns();
        t.model->run(inputs_);
        synchronize(contest_.device);
        call = now_ns() - begun;
      });
      timing.first_call_ns = now_ns() - start;
      best_call_ns_ = best_call_ns_ == 0 ? call : std::min(best_call_ns_, call);
    }
    const Clocked clocked(&result_.seconds.check);
    judge(t.trial, check(contest_.network, contest_.single, contest_.ensemble,
                         compared(as_function(*t.model, contest_.network)), contest_.tolerance,
                         contest_.candidates[i].masks_shared, &expected_,
                         /*run_again=*/false));  // `check_after` does
    t.model->set_weights(weights_);              // the check used other weights
    if (contest_.reduce != Reduce::none) {
      // The check needs each model's outputs; from here on the program returns reduced ones.
      t.model = reduced(std::move(t.model), contest_.reduce);
      if (t.trial.correctness->pass && !contest_.network.random)
        check_values(t, t.model->run(inputs_), "reduced");
    }
    if (contest_.network.random) drawn_[i] = draw(*t.model);
  }

  /// The results with random numbers drawn from the contest's seed.
  Tensors draw(CompiledModel& model) const {
    seed_random(contest_.seed, contest_.device);
    Tensors results;
    for (const Tensor& t : model.run(inputs_))
      results.push_back(t.clone(at::MemoryFormat::Contiguous));
    return results;
  }

  void check_after(size_t i) {
    const Clocked clocked(&result_.seconds.check);
    TriedCandidate& t = result_.trials[i];
    const bool copied = contest_.keep_results || contest_.network.random;
    const Tensors now = copied ? draw(*t.model) : t.model->run(inputs_);
    if (contest_.keep_results) t.results = now;
    if (t.trial.status != Status::ok) return;
    if (!contest_.network.random) return check_values(t, now, "after timing");
    // The statistics were checked before; after timing the same seed must give the same results.
    for (size_t k = 0; k < now.size(); ++k)
      if (!now[k].equal(drawn_[i][k]))
        fail_check(t.trial,
                   fmt::format("after timing: output {} differs from before for one seed", k));
  }

  /// Compares with float64 again: a program that corrupts its own buffers is right only at first.
  void check_values(TriedCandidate& t, const Tensors& results, const char* when) const {
    Correctness& c = *t.trial.correctness;
    const double error = error_of(results, allowed(c));
    c.max_rel = std::max(c.max_rel, error);
    if (!(error <= allowed(c)))
      fail_check(t.trial, fmt::format("{}: relative error {}, expected at most {}", when,
                                      error_text(error), error_text(allowed(c))));
  }

  WideFunction compared(WideFunction function) const {
    if (!contest_.compared) return function;
    return [this, function = std::move(function)](const Ensemble& ensemble) {
      return contest_.compared(function(ensemble));
    };
  }

  double error_of(const Tensors& all, double tolerance) const {
    const Tensors got = contest_.compared ? contest_.compared(all) : all;
    if (contest_.reduce == Reduce::none) return max_relative_error(got, expected_.exact);
    const auto updates = static_cast<std::ptrdiff_t>(contest_.single.outputs.size());
    const double error = reduced_error(contest_.reduce, {got.begin(), got.begin() + updates},
                                       expected_.exact, tolerance);
    return std::max(error,
                    max_relative_error({got.begin() + updates, got.end()},
                                       {expected_.exact.begin() + updates, expected_.exact.end()}));
  }

  bool wants(const std::string& baseline) const {
    const auto& these = contest_.baselines;
    const bool named = these.empty() || std::ranges::find(these, baseline) != these.end();
    return named && !contest_.baselines_off.count(baseline);
  }

  std::vector<Baseline> all_baselines() const {
    const std::vector<Baseline>& own = contest_.own_baselines;
    const auto replaced = [&](const std::string& name) {
      return std::ranges::any_of(own, [&](const Baseline& b) { return b.name == name; });
    };
    std::vector<Baseline> all =
        wide::baselines(contest_.network, contest_.ensemble, contest_.threads,
                        [&](const std::string& name) { return wants(name) && !replaced(name); });
    all.insert(all.end(), own.begin(), own.end());
    for (Baseline& baseline : all)
      if (contest_.compared && baseline.run)
        baseline.run = [this, run = std::move(baseline.run)] { return contest_.compared(run()); };
    return all;
  }

  std::vector<Timed> find_baselines() {
    std::vector<Timed> timed;
    if (contest_.baselines_off.count("*")) return timed;
    stages_.begin("baseline", std::string(kBaselinePrefix) + "*");
    const Clocked clocked(&result_.seconds.baselines);
    const double tolerance = std::max({1e-2, contest_.tolerance, 4 * expected_.eager_max_rel});
    CorrectBaselines correct =
        correct_baselines(all_baselines(), expected_.exact, contest_.network.random, tolerance,
                          [this](const std::string& name) {
                            if (!wants(name)) return false;
                            stages_.begin("baseline", kBaselinePrefix + name);
                            return true;
                          });
    result_.notes = std::move(correct.notes);
    for (TriedCandidate& t : result_.trials)
      if (!correct.disagreement.empty() && t.trial.status == Status::ok)
        fail_check(t.trial, correct.disagreement);
    for (Baseline& b : correct.good) {
      Contender c{b.name, "baseline", std::move(b.call), contest_.device};
      c.call_with_packing = std::move(b.call_with_packing);
      timed.push_back({std::move(c), std::nullopt});
    }
    return timed;
  }

  void time_all() {
    std::vector<Timed> timed = find_baselines();
    // Reuses the permuted inputs of the check, no longer needed, as memory for stacked inputs.
    const auto packed = std::make_shared<Tensors>(pick(contest_.network, expected_.permuted, true));
    expected_.permuted = {};
    for (size_t i = 0; i < result_.trials.size(); ++i) {
      CompiledModel* model = result_.trials[i].model.get();
      if (!model) continue;
      Contender c{contest_.candidates[i].name, "candidate",
                  repeated_call(*model, contest_.network, inputs_), contest_.device};
      c.has_run = true;
      if (contest_.phase != "step" && contest_.reduce == Reduce::none)
        c.call_with_packing = packing_call(*model, contest_.ensemble, contest_.network, packed);
      timed.push_back({std::move(c), i});
    }
    const LoadWatch watch;
    // A contender that fails is removed, and the others are timed again.
    while (!timed.empty() && timed.back().candidate && !time_once(timed)) continue;
    result_.other_load = watch.other_load();
    result_.disturbed = result_.other_load > kDisturbedShare;
    if (const int64_t others = others_on(contest_.device); others > 0) {
      result_.disturbed = true;
      result_.notes.push_back(fmt::format("{} other {} had work on {}: speedups are UNCLEAR",
                                          others, others == 1 ? "process" : "processes",
                                          contest_.device.str()));
    }
  }

  /// Times all contenders together. False if one failed: it is removed, and no time is kept.
  bool time_once(std::vector<Timed>& timed) {
    std::vector<Contender> contenders;
    std::vector<std::string> names;
    size_t current = 0;
    for (const Timed& t : timed) {
      Contender& told = contenders.emplace_back(t.contender);
      const auto tell = [&, index = names.size()](std::function<void()> call) {
        return [this, &current, index, call = std::move(call)] {
          stages_.call(current = index);
          call();
        };
      };
      told.call = tell(told.call);
      if (told.call_with_packing) told.call_with_packing = tell(told.call_with_packing);
      names.push_back((t.candidate ? "" : kBaselinePrefix) + told.name);
    }
    MeasureOptions how;
    how.budget_s = contest_.budget_s;
    how.min_samples = contest_.min_samples;
    how.seed = contest_.seed;
    stages_.time(names);
    const Clocked clocked(&result_.seconds.timing);
    std::vector<Timing> timings;
    try {
      timings = measure(contenders, how);
    } catch (...) {
      leave(timed[current], std::current_exception());
      timed.erase(timed.begin() + static_cast<ptrdiff_t>(current));
      return false;
    }
    const CaseJudge judge(contest_.single, contest_.ensemble, contest_.device, contest_.dtype,
                          contest_.threads, contest_.flops);
    for (size_t i = 0; i < timed.size(); ++i) {
      Timing& t = timings[i];
      if (!timed[i].candidate) {
        judge.baseline(t);
        result_.baselines.push_back(std::move(t));
        continue;
      }
      TriedCandidate& of = result_.trials[*timed[i].candidate];
      t.first_call_ns = of.trial.timing.first_call_ns;
      t.peak_bytes = of.trial.timing.peak_bytes;
      judge.candidate(t, *of.model);
      of.trial.timing = std::move(t);
    }
    return true;
  }

  /// Reports a contender that failed while it was timed: a candidate's trial ends, a baseline is
  /// noted.
  void leave(const Timed& who, const std::exception_ptr& thrown) {
    expect_working(contest_.device);
    if (who.candidate)
      end(result_.trials[*who.candidate], thrown);
    else
      result_.notes.push_back(fmt::format(
          "baseline {} failed while it was timed and is left out: {}", who.contender.name,
          outcome_of(thrown, who.contender.name, contest_.memory).reason));
  }

  const Contest& contest_;
  Stages& stages_;
  Tensors inputs_, weights_;
  double best_call_ns_ = 0;  // fastest candidate so far, roughly measured
  Expected expected_;
  std::vector<Tensors> drawn_;  // by candidate, if random: results before timing
  ContestResult result_;
};

}  // namespace

ContestResult run_contest(const Contest& contest, Stages& stages) {
  const at::NoGradGuard no_grad;
  return RunningContest(contest, stages).run();
}

void compare(Trial& trial, const std::vector<Timing>& baselines, bool disturbed, uint64_t seed) {
  if (trial.status != Status::ok || baselines.empty()) return;
  trial.speedup = speedup_of(baselines, trial.timing, seed);
  trial.verdict = disturbed ? "UNCLEAR" : verdict(trial.speedup->vs_best);
}

Tensors pick(const Network& network, const Ensemble& ensemble, bool inputs) {
  Tensors out;
  for (const size_t i : network.indices(inputs)) out.push_back(ensemble.tensors[i]);
  return out;
}

Clocked::Clocked(double* seconds) : seconds_(seconds), begun_ns_(now_ns()) {}
Clocked::~Clocked() { *seconds_ += (now_ns() - begun_ns_) * 1e-9; }

}  // namespace wide
