#include "app/train/train.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/fuse/unstack.h"
#include "app/results/keeper.h"
#include "app/sandbox/sandbox.h"
#include "app/train/baselines/bench.h"
#include "app/train/baselines/separate_runs.h"
#include "app/train/inputs/arrays.h"
#include "app/train/inputs/fingerprint.h"
#include "app/train/outputs/export.h"
#include "app/train/outputs/require.h"
#include "app/train/run/evaluate.h"
#include "app/train/run/identity.h"
#include "app/train/run/loop.h"
#include "app/train/run/merge.h"
#include "app/train/run/observer.h"
#include "app/train/run/slices.h"
#include "app/train/run/together.h"
#include "app/version.h"
#include "data/escape.h"
#include "data/reports/run/run_compare.h"
#include "data/reports/run/run_fields.h"
#include "data/reports/run/run_report.h"
#include "data/reports/sweep/report_json.h"
#include "data/store/store.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLongRun = 200;        // steps; in a shorter run the estimate would take too long
constexpr double kEstimateShare = 0.05;  // of the run's time, for the estimate of separate runs
constexpr double kEstimateSeconds = 10;  // at most

class Run {
 public:
  /// `together`: the run of all ranks, if this is one rank's slice of it.
  Run(const TrainOptions& options, const TrainSinks& sinks, const SavedRun* saved,
      const Together* together = nullptr)
      : sinks_(sinks),
        together_(together),
        run_(options),
        requirements_(parse_requirements(sinks.require, run_.metrics, run_.data.has_validation())),
        folder_(options.no_save ? "" : options.save),
        merged_(saved && !saved->parts.empty()) {
    check_ensemble_requirements();
    if (saved) check_goes_on(*saved);
    facts_.run.name = sinks.name;
    facts_.run.command = sinks.command;
    facts_.run.dir = folder_.path();
    facts_.environment = capture_environment(sinks.command, version(), git_state());
    facts_.run.started = sinks.started.empty() ? facts_.environment.date : sinks.started;
    if (saved) run_.defaults.insert(saved->defaults.begin(), saved->defaults.end());
    std::string how = "saved";
    Start start = start_models(run_);
    if (!saved) how = start.how;
    trainer_ = std::make_unique<Trainer>(run_.trainer(start, saved ? saved->plan : sinks.plan));
    facts_.notes = run_.notes;
    if (sinks.against) {
      if (!run_.data.has_validation())
        fail(
            "[--against] rows: got no validation rows, expected some to compare by; try "
            "--validation 0.2");
      check_comparable(*sinks.against, run_report(run_, planned(), facts_));
    }
    for (const std::vector<std::string>& notes : {run_.network.notes(), start.notes, sinks.lacks})
      facts_.notes.insert(facts_.notes.end(), notes.begin(), notes.end());
    look_at_trainer();
    state_.models.resize(static_cast<size_t>(run_.n()));
    state_.loss_sum = at::zeros({run_.n()}, at::kDouble);
    if (saved) {
      state_ = saved->state;
      if (run_.n() != static_cast<int64_t>(state_.models.size()))
        fail(
            "[{}] models: got {}, expected {} as when the run began; try the files that it began "
            "with",
            printable(options.save), run_.n(), state_.models.size());
      const std::string& file = saved->tensors_in.empty() ? options.save : saved->tensors_in;
      TrainerState from = load_models(*saved, file, run_, *trainer_, &state_);
      from.plan = saved->plan;
      trainer_->load_state(from);
      for (size_t m = 0; m < state_.models.size(); ++m)  // a run at its end is made longer
        if (state_.models[m].status == "trained" && state_.models[m].at_step < run_.ends[m])
          state_.models[m].status = "running";
    }
    state_.name = sinks.name;
    if (saved && !merged_) note_resume();
    keep_beginning();
    if (sinks.started.empty()) tell(first_line(run_, how) + "\n");
  }

  /// Trains one rank's models, and saves the result in the rank's slice. Returns false if the run
  /// was asked to stop before its end.
  bool train_slice() {
    plan_first_step();
    if (sinks_.store) {
      RunReport of_all = facts_;
      of_all.run.dir = together_->options.save;
      keeper().open(Store::path(sinks_.db));
      state_.run =
          keeper().begin_run(to_json(report_of_all(run_, of_all)), state_.run, state_.step);
    }
    if (together_->leads()) {
      if (!sinks_.unstack.empty()) check_unstack_folder(sinks_.unstack);
      const int64_t model_bytes = bytes_of(trainer_->weights()) / run_.n();
      const int64_t all = trainer_->memory().state_bytes / run_.n() + model_bytes;
      RunFolder(together_->options.save)
          .prepare(run_, model_bytes, all * static_cast<int64_t>(run_.everyone.size()));
    }
    catch_cancel();
    RowLog log(together_->leads() ? run_.options.log : "", run_, together_->history);
    Recorder recorder(run_, *trainer_, state_, folder_, log, sinks_, together_);
    recorder.save();  // from here on the run can be resumed
    const bool ended = Loop(run_, *trainer_, state_, recorder, &together_->group).run();
    check_cancelled();
    recorder.save();
    return ended;
  }

  /// Trains to the end and writes all results; returns the exit code. `goes_on` false: ranks were
  /// asked to stop, so no step is made.
  int operator()(bool goes_on = true) {
    if (sinks_.bench) return timed();
    const double planned_ns = plan_first_step();
    if (sinks_.store) {
      keeper().open(Store::path(sinks_.db));
      state_.run = keeper().begin_run(head(), state_.run, state_.step);
    }
    const int64_t model_bytes = bytes_of(trainer_->weights()) / run_.n();
    if (!sinks_.unstack.empty()) check_unstack_folder(sinks_.unstack);
    folder_.prepare(run_, model_bytes, trainer_->memory().state_bytes + model_bytes * run_.n());
    catch_cancel();
    RowLog log(rank_group() ? "" : run_.options.log, run_, state_.history);  // ranks have logged
    Recorder recorder(run_, *trainer_, state_, folder_, log, sinks_);
    if (state_.step == 0 || merged_ || !folder_.has_split()) folder_.save_split(run_);
    if (state_.step == 0 || merged_) recorder.save();  // from here on the run can be resumed
    bool ended = false;
    try {
      Loop loop(run_, *trainer_, state_, recorder);
      ended = goes_on && loop.run();
      if (loop.first_call_ns() > 0) facts_.first_call_ns = planned_ns + loop.first_call_ns();
      look_at_trainer();
      note_trainer();
    } catch (...) {
      // The last saved state is complete, so the run can be resumed from there.
      facts_.run.state = "interrupted";
      if (sinks_.store) keeper().end_run(state_.run, to_json(report()));
      throw;
    }
    note_skipped();
    if (!ended) return interrupted(&recorder);
    return complete(&recorder);
  }

 private:
  /// Refuses to resume with other data, another network, or fewer steps than were made.
  void check_goes_on(const SavedRun& saved) {
    if (!saved.data.empty()) check_same_data(saved.data, run_.fingerprint, run_.data);
    if (!saved.identity.empty())
      for (const std::string& note : check_identity(saved.identity, run_))
        run_.notes.push_back(note);
    for (size_t m = 0; m < saved.state.models.size(); ++m) {
      const ModelState& state = saved.state.models[m];
      if (state.status == "trained" && state.at_step < saved.state.step &&
          state.at_step < run_.ends[m])
        fail(
            "[--resume] --epochs: got another length, expected the one that it began with, as "
            "models ended at different steps; try a new run that starts from {}/last",
            printable(run_.options.save));
    }
    const int64_t made = saved.state.step, epoch = run_.feed->steps_per_epoch();
    if (run_.steps >= made) return;
    const bool in_steps = run_.options.steps > 0;
    fail("[--resume] {}: got {} steps in all, expected at least the {} that are made; try {} {}",
         in_steps ? "--steps" : "--epochs", run_.steps, made, in_steps ? "--steps" : "--epochs",
         in_steps ? made : (made + epoch - 1) / epoch);
  }

  void note_resume() {
    state_.resumes.push_back(
        fmt::format("resumed at step {}: {}", state_.step, printable(sinks_.command, 1000)));
  }

  /// A run keeps the command that it began with, which repeats it, and its time.
  void keep_beginning() {
    facts_.notes.insert(facts_.notes.end(), state_.resumes.begin(), state_.resumes.end());
    if (state_.command.empty()) {
      state_.command = facts_.run.command;
      state_.started = facts_.run.started;
    }
    facts_.run.command = state_.command;
    facts_.run.started = state_.started;
  }

  void check_ensemble_requirements() const {
    const bool own_rows = has_own_rows(run_, run_.validation());
    for (const Requirement& r : requirements_) {
      if (r.over != "ensemble") continue;
      if (own_rows)
        fail(
            "[--require] {}: got models with rows of their own, expected the same rows for "
            "all; try min: or best: instead of ensemble:",
            printable(r.text));
      for (const WantedMetric& metric : run_.metrics)
        if (metric.name == r.metric && !metric.of_answer)
          fail(
              "[--require] {}: got a number that the network computes, expected a metric of "
              "answers and targets, which a mean answer has; try mean: or best: instead of "
              "ensemble:",
              printable(r.text));
    }
  }

  /// Records and plans the first step, so that a network that cannot be trained is refused before
  /// anything is written or an earlier run is removed. Returns the nanoseconds that it took.
  double plan_first_step() {
    const double begun = now_ns();
    if (state_.step < run_.steps && !trainer_->running().empty())
      trainer_->prepare(run_.feed->training(state_.step));
    return now_ns() - begun;
  }

  void tell(const std::string& text) const {
    if (!sinks_.quiet) print_progress(run_.options, text);
  }

  void look_at_trainer() {
    if (merged_) return;  // memory and recordings of the parts' trainers are not known
    facts_.memory = trainer_->memory();
    facts_.recordings = trainer_->recordings();
  }

  void note_trainer() {
    for (const std::string& note : trainer_->notes()) facts_.notes.push_back(note);
    const TrainerMemory memory = trainer_->memory();
    if (memory.recomputed == 0) return;
    facts_.notes.push_back(fmt::format(
        "memory is short: {} calls of a step are made twice, which saves {} in each of {} threads",
        memory.recomputed, bytes_text(double(memory.saved_bytes)), memory.threads));
  }

  void note_skipped() {
    int64_t steps = 0, models = 0;
    for (const ModelState& m : state_.models) {
      steps += m.skipped;
      models += m.skipped > 0;
    }
    if (models > 0)
      facts_.notes.push_back(
          fmt::format("{} steps of {} models skipped: nothing in their batches counts (ignored, or "
                      "of weight 0)",
                      steps, models));
  }

  /// --bench: times a step. Trains nothing, and writes only the report.
  int timed() {
    const Start start = start_models(run_);
    const BenchResult result = bench(run_, start, *trainer_, sinks_.budget_s);
    facts_.results = result.timings;
    facts_.first_call_ns = result.first_call_ns;
    facts_.run.state = "complete";
    facts_.notes.insert(facts_.notes.end(), result.notes.begin(), result.notes.end());
    const Json doc = to_json(report());
    if (!sinks_.json.empty()) write_json(sinks_.json, doc);
    if (sinks_.quiet) return 0;
    const Timing& wide = result.timings.back();
    for (const Timing& t : result.timings)
      print_plain(
          fmt::format("  {:<8} {:>10} a step{}\n", t.name, time_text(t.median_ns),
                      &t == &wide ? "" : "   " + speedup_text(speedup(t, wide)) + " by wide"));
    return 0;
  }

  static int64_t bytes_of(const std::map<std::string, Tensor>& tensors) {
    int64_t sum = 0;
    for (const auto& [name, tensor] : tensors) sum += static_cast<int64_t>(tensor.nbytes());
    return sum;
  }

  RunReport report() const { return run_report(run_, state_, facts_); }

  Json head() const {
    RunReport head = report();
    head.history.clear();
    return to_json(head);
  }

  int interrupted(Recorder* recorder) {
    recorder->save();
    folder_.save_checkpoints(run_, *trainer_, state_, kept());
    for (ModelState& m : state_.models)
      if (m.running()) {
        m.status = "interrupted";
        m.at_step = state_.step;
      }
    facts_.run.state = "interrupted";
    finish();
    tell(fmt::format("interrupted at step {} of {}{}\n", state_.step, run_.steps,
                     folder_.exists() ? fmt::format("; go on with: workbench train --resume {}",
                                                    shell_word(folder_.path()))
                                      : ""));
    return 130;
  }

  int complete(Recorder* recorder) {
    recorder->save();
    folder_.save_checkpoints(run_, *trainer_, state_, kept());
    if (!run_.data.test.empty() || run_.data.has_validation()) with_best_weights();
    if (!sinks_.exports.empty()) {
      for (const std::string& note : export_run(run_, best_or_last(), sinks_.exports))
        facts_.notes.push_back(note);
    }
    if (!sinks_.unstack.empty())
      facts_.notes.push_back(unstack_run(sinks_.unstack, run_, best_or_last()));
    note_without_best();
    facts_.run.state = "complete";
    finish();
    tell(run_text(report(), {}));
    std::vector<Complaint> complaints = unmet(requirements_, state_, facts_.ensemble.validation);
    if (std::ranges::all_of(state_.models,
                            [](const ModelState& m) { return m.status == "diverged"; }))
      throw Error(fmt::format("[train] models: got all {} diverged, expected one to train; try a "
                              "smaller --lr or --set clip=1",
                              run_.n()),
                  4);
    if (std::ranges::all_of(state_.models, [](const ModelState& m) {
          return m.skipped > 0 && m.skipped == m.at_step;
        }))
      throw Error(
          "[train] batches: got none in which anything counts, expected rows that are "
          "neither ignored nor of weight 0; try other targets or weights",
          4);
    if (sinks_.against) {
      const RunComparison c = compare_runs(*sinks_.against, report());
      tell(comparison_text(c));
      if (sinks_.worse_percent > 0 && c.worse_by(sinks_.worse_percent))
        complaints.push_back({3, worse_line(c, sinks_.worse_percent)});
    }
    say_separate_runs();
    return complain(complaints);
  }

  /// Estimates the time of separate runs. Comes last: if it fails, the results are already written.
  void say_separate_runs() {
    if (run_.steps < kLongRun || merged_) return;  // parts may be of other machines
    if (run_.options.device != "cpu") return;      // separate runs are timed on the CPU alone
    int64_t steps = 0;  // made by all models; pruned and stopped ones made fewer
    for (const ModelState& m : state_.models) steps += m.at_step;
    const double budget_s = std::min(kEstimateShare * state_.seconds, kEstimateSeconds);
    const auto separate = estimate_separate_runs(run_, trainer_->weights(), steps, budget_s);
    if (!separate) return;
    facts_.loop_seconds = separate->seconds.value;
    facts_.notes.push_back(fmt::format(
        "{} separate runs, {}: about {} for the same {} steps of a model (95 % interval {} to {})",
        run_.n(), separate->how, time_text(separate->seconds.value * 1e9), steps,
        time_text(separate->seconds.low * 1e9), time_text(separate->seconds.high * 1e9)));
    finish();
    tell(fmt::format("  {}\n", facts_.notes.back()));
  }

  /// Notes models without a best value, as their metric was always NaN (auc of rows of one class).
  void note_without_best() {
    if (!run_.data.has_validation()) return;
    const auto without = std::ranges::count_if(
        state_.models, [](const ModelState& m) { return !m.best && m.status != "diverged"; });
    if (without > 0)
      facts_.notes.push_back(
          fmt::format("{} of {} models have no best: {} of the validation rows was never a number; "
                      "try another --monitor",
                      without, run_.n(), run_.monitor().name));
  }

  /// State before the first step.
  TrainState planned() const {
    TrainState state;
    state.models.resize(static_cast<size_t>(run_.n()));
    return state;
  }

  /// The models whose checkpoints are written: the best K by what is monitored.
  std::vector<int64_t> kept() const {
    std::vector<int64_t> models;
    for (int64_t m = 0; m < run_.n(); ++m) models.push_back(m);
    if (run_.options.keep <= 0 || run_.options.keep >= run_.n()) return models;
    const auto value = [&](int64_t m) {
      const auto& best = state_.models[static_cast<size_t>(m)].best;
      if (!best) return std::numeric_limits<double>::infinity();
      return run_.monitor().more_is_better ? -*best : *best;
    };
    std::ranges::stable_sort(models, [&](int64_t a, int64_t b) { return value(a) < value(b); });
    models.resize(static_cast<size_t>(run_.options.keep));
    return models;
  }

  /// Computes with the best weights what no choice depended on: test metrics, out-of-fold
  /// predictions and the mean answer.
  void with_best_weights() {
    const at::NoGradGuard no_grad;
    trainer_->set_weights(best_or_last());
    if (!run_.data.test.empty()) {
      const RowSet test{&run_.data.test_parts(), &run_.data.test};
      const auto values = evaluate(run_, *trainer_, test);
      for (const auto& [metric, all] : values)
        for (size_t m = 0; m < all.size(); ++m)
          if (!std::isnan(all[m])) state_.models[m].test[metric] = all[m];
      facts_.ensemble.test = ensemble(test);
    }
    if (run_.data.has_validation()) facts_.ensemble.validation = ensemble(run_.validation());
    if (run_.data.folds > 0 && folder_.exists()) save_out_of_fold();
  }

  /// Metrics of the mean answer; empty if there is none.
  std::map<std::string, double> ensemble(const RowSet& set) {
    if (has_own_rows(run_, set)) return {};
    if (std::ranges::none_of(run_.metrics, &WantedMetric::of_answer)) return {};
    const std::vector<int64_t> models = answering_models(state_.models);
    if (models.empty()) return {};
    if (const std::string out = left_out_text(state_.models); !out.empty()) {
      const std::string note =
          fmt::format("ensemble of {} of {} models: {}", models.size(), run_.n(), out);
      if (facts_.notes.empty() || facts_.notes.back() != note) facts_.notes.push_back(note);
    }
    return evaluate_ensemble(run_, *trainer_, set, models);
  }

  /// Each model's best weights; the last ones of a model without a best.
  std::map<std::string, Tensor> best_or_last() const {
    std::map<std::string, Tensor> weights = trainer_->weights();
    for (auto& [name, tensor] : weights) {
      if (trainer_->shared(name)) continue;
      for (size_t m = 0; m < state_.models.size(); ++m)
        if (state_.models[m].best)
          tensor[static_cast<int64_t>(m)].copy_(state_.best.at(name)[static_cast<int64_t>(m)]);
    }
    return weights;
  }

  /// Writes oof.npz: each row is predicted by the model that did not learn from it, for each set of
  /// models that differ only in the fold. NaN for a model that diverged before its first
  /// evaluation.
  void save_out_of_fold() {
    if (!run_.answers_rows) {
      facts_.notes.push_back(fmt::format(
          "no oof.npz: output {} is of a whole batch, rows have no predictions; --output says "
          "another",
          run_.loss.answer));
      return;
    }
    std::map<std::pair<int64_t, int64_t>, int64_t> so_far;  // models by configuration and fold
    std::map<std::pair<int64_t, int64_t>, int64_t> sets;  // by configuration, and which of its own
    std::vector<int64_t> set_of, models;                  // by model; by set and fold, -1: none
    for (const ModelSettings& m : run_.configurations.models) {
      const int64_t nth = so_far[{m.config, m.fold}]++;
      const int64_t set = sets.emplace(std::pair(m.config, nth), sets.size()).first->second;
      models.resize(sets.size() * static_cast<size_t>(run_.data.folds), -1);
      models[static_cast<size_t>(set * run_.data.folds + m.fold)] = std::ssize(set_of);
      set_of.push_back(set);
    }
    Tensor predictions;
    const auto count = std::ssize(sets);
    answer(run_, *trainer_, run_.validation(), [&](const HeldBatch& held, const Tensors& outputs) {
      const Tensor p = probabilities(run_.loss.loss, outputs.at(run_.loss.answer), 2);
      if (!predictions.defined()) {
        Sizes sizes = p.sizes().slice(2).vec();
        sizes.insert(sizes.begin(), {count, run_.data.train.rows});
        predictions = at::full(sizes, std::nan(""), p.options());
      }
      for (int64_t m = 0; m < run_.n(); ++m) {
        const ModelState& model = state_.models[static_cast<size_t>(m)];
        if (model.status == "diverged" && !model.best) continue;
        const Tensor there = held.present[m].gt(0);
        predictions[set_of[static_cast<size_t>(m)]].index_put_({held.rows[m].masked_select(there)},
                                                               p[m].index({there}));
      }
    });
    write_npz(folder_.file("oof.npz"),
              {{"prediction", predictions},
               {"fold", at::tensor(run_.data.fold_of, at::kLong)},
               {"target", run_.data.train.target && !run_.data.train.target->own
                              ? run_.data.train.target->values
                              : at::empty({0}, at::kLong)},
               {"model", at::tensor(models, at::kLong).view({count, run_.data.folds})}});
  }

  void finish() {
    folder_.save_models(run_, state_);
    const Json doc = to_json(report());
    if (folder_.exists()) write_json(folder_.file("report.json"), doc);
    if (!sinks_.json.empty()) write_json(sinks_.json, doc);
    if (sinks_.store) keeper().end_run(state_.run, doc);
  }

  const TrainSinks& sinks_;
  const Together* together_;  // nullptr: all models are here
  Prepared run_;
  std::vector<Requirement> requirements_;
  RunFolder folder_;
  RunReport facts_;  // the fields that `run_report` does not set
  TrainState state_;
  bool merged_;  // made of parts that have ended
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

int train(const TrainOptions& options, const TrainSinks& sinks, const SavedRun* saved) {
  if (!rank_group()) return Run(options, sinks, saved)();
  const Together together{*rank_group(), options,
                          saved ? saved->state.history : std::vector<Evaluated>()};
  TrainSinks of_all = sinks;
  of_all.started = utc_now();
  bool ended = true;
  {
    const TrainOptions own = together.own_options();
    TrainSinks of_slice = sinks;
    of_slice.store = sinks.store && together.leads();
    of_slice.quiet = sinks.quiet || !together.leads();
    of_slice.against = nullptr;
    std::optional<SavedRun> cut;
    if (saved) cut = cut_run(*saved, options.save, own);
    ended = Run(own, of_slice, cut ? &*cut : nullptr, &together).train_slice();
  }
  if (!together.leads()) return 0;
  // All slices have ended: now compute what needs all models.
  SavedRun whole = merge_slices(together.slices());
  whole.options = options;
  whole.options.overwrite = false;
  return Run(whole.options, of_all, &whole)(ended);
}

}  // namespace wide
