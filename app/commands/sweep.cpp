#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/options.h"
#include "app/sweep_printer.h"
#include "app/sweep_record.h"
#include "app/sweep_text.h"
#include "app/version.h"
#include "data/peaks.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Everything that was run, for the summary and the report's file.
class Collector : public SweepObserver {
 public:
  explicit Collector(SweepReport* report) : report_(report) {}
  void on_case(const Case& c) override { report_->cases.push_back(c); }
  void on_known(const Case& c) override { report_->cases.push_back(c); }
  void on_end(const std::string& state) override { report_->state = state; }

 private:
  SweepReport* report_;
};

class SweepCommand : public Command {
 public:
  std::string name() const override { return "sweep"; }
  std::string summary() const override {
    return "run a preset: every strategy of every target, checked and timed";
  }

  void declare(CLI::App& app) override {
    app.add_option("SWEEP", preset_, "quick, ci, or a preset's .json file")->required();
    app.add_option("--targets", choices_.targets, "names, or primitives, blocks, models")
        ->delimiter(',');
    app.add_option("-n,--n", choices_.n, "numbers of models, as 4,8,16");
    app.add_option("--axis", choices_.axes, "replace an axis of a target: linear.D=256,512")
        ->allow_extra_args(false);
    app.add_option("--strategy", choices_.strategies, "only this strategy: conv2d=grouped")
        ->allow_extra_args(false);
    app.add_option("--device", choices_.devices, "cpu, cuda or cuda:0")->delimiter(',');
    app.add_option("--dtype", choices_.dtypes, "f32, f64, f16 or bf16")->delimiter(',');
    app.add_option("--mode", choices_.modes, "eager, default, reduce-overhead or max-autotune")
        ->delimiter(',');
    app.add_option("--phase", choices_.phases, "forward, backward or step")->delimiter(',');
    app.add_option("--threads", threads_, "CPU threads; default: as many as cores");
    app.add_option("--seed", seed_, "of everything random")->capture_default_str();
    app.add_option("--budget", budget_, "seconds of timing per trial; default: the preset's")
        ->check(not_positive);
    app.add_option("--name", name_, "a label, to find the sweep by");
    app.add_option("--json", json_, "write the report");
    app.add_flag("--quiet", quiet_, "print nothing but errors");
    auto* resume = app.add_flag("--resume", resume_,
                                "continue the interrupted sweep of this name; asked the same");
    app.add_flag("--no-store", no_store_, "keep no result in the store")->excludes(resume);
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    const Preset preset = find_preset(preset_);
    const std::vector<PlannedCase> cases = plan_sweep(preset, choices_);
    SweepSettings settings;
    settings.budget_s = budget_ > 0 ? budget_ : preset.budget_s;
    settings.seed = seed_;
    settings.threads = set_threads(threads_);
    settings.baselines = preset.baselines;
    settings.forced = parse_strategies(choices_.strategies);

    SweepReport report;
    report.name = name_.empty() ? preset.name : name_;
    report.command = typed_command();
    report.environment = capture_environment(typed_command(), version(), git_state());
    report.id = report.environment.date;
    add_peaks(report.environment, machine_peaks(cases.front().device, settings.threads));

    std::optional<SweepRecorder> recorder;
    std::string kept;  // what the first line says of the store
    if (!no_store_) {
      recorder.emplace(Store::create(Store::path(db_)),
                       store_plan(report.name, cases, settings, report.environment), resume_);
      report.id = std::to_string(recorder->id());
      kept = resume_ ? fmt::format("; continues sweep {}, {} cases are done", report.id,
                                   recorder->done_before())
                     : fmt::format("; stored as sweep {}", report.id);
    }

    const double estimate = estimate_seconds(cases, settings.budget_s);
    if (!quiet_)
      fmt::print("sweep {}: {} cases, {} trials, about {}{}\n", report.name, cases.size(),
                 count_trials(cases), duration_text(estimate), kept);
    std::fflush(stdout);
    catch_cancel();
    SweepPrinter printer(cases.size(), estimate, quiet_);
    Collector collector(&report);
    SweepRunner runner(cases, settings);
    if (recorder) recorder->attach(runner);  // first: what is shown as done is stored
    runner.add(printer);
    runner.add(collector);
    runner.run();
    report.changes = changes_of(report);
    if (!json_.empty()) write_json(json_, to_json(report));
    if (report.state == "cancelled") throw Cancelled();
    if (!quiet_) fmt::print("{}", summary_text(report));
    return exit_code(report);
  }

 private:
  static std::vector<std::string> changes_of(const SweepReport& report) {
    Environment now;
    now.cores = usable_cores();
    now.threads = report.environment.threads;
    read_processor(now);
    std::vector<std::string> changes = changes_between(report.environment, now);
    int64_t disturbed = 0;
    double most = 0;
    for (const Case& c : report.cases) {
      disturbed += c.disturbed ? 1 : 0;
      most = std::max(most, c.other_load);
    }
    if (disturbed > 0)
      changes.push_back(
          fmt::format("other processes disturbed {} of {} cases: {:.0f} % of the cores "
                      "at most",
                      disturbed, report.cases.size(), 100 * most));
    return changes;
  }

  /// Incorrect counts before crashed; one line says which.
  int exit_code(const SweepReport& report) const {
    for (const auto& [status, code] : {std::pair{Status::incorrect, 4},
                                       {Status::crashed, 5},
                                       {Status::timeout, 5},
                                       {Status::oom, 5}}) {
      std::vector<std::string> trials;
      for (const Case& c : report.cases)
        for (const Trial& t : c.trials)
          if (t.status == status)
            trials.push_back(fmt::format("{}/{} n={}", c.target, t.strategy, c.n));
      if (!trials.empty())
        throw Error(
            fmt::format("[{}] trials: got {} {} ({}), expected ok or unsupported; try "
                        "--targets with one of them",
                        printable(report.name), trials.size(), to_string(status), listing(trials)),
            code);
    }
    return 0;
  }

  SweepChoices choices_;
  std::string preset_, name_, json_, db_;
  int threads_ = 0;
  uint64_t seed_ = 0;
  double budget_ = 0;
  bool quiet_ = false, no_store_ = false, resume_ = false;
};

const bool registered = add_command([] { return std::make_unique<SweepCommand>(); });

}  // namespace
}  // namespace wide
