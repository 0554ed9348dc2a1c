#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/cluster/launch.h"
#include "app/cluster/rank_worker.h"
#include "app/options.h"
#include "app/results/table.h"
#include "app/sandbox/output_files.h"
#include "app/sweep/printer.h"
#include "app/sweep/regression.h"
#include "app/sweep/session.h"
#include "app/sweep/summary.h"
#include "app/sweep/text.h"
#include "app/trial/peer.h"
#include "app/worker/host.h"
#include "data/bytes/part_file.h"
#include "data/preset.h"
#include "data/reports/sweep/report_json.h"
#include "data/store/store.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide::sweep_command {
namespace {

class SweepCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SWEEP", preset_,
                   fmt::format("{}, or a preset's .json file", fmt::join(preset_names(), ", ")))
        ->required();
    app.add_option("--targets", choices_.targets, "names, or primitives, blocks, models")
        ->delimiter(',');
    app.add_option("-n,--n", choices_.n, "numbers of models, as 4,8,16");
    app.add_option("--axis", choices_.axes, "replace an axis of a target: linear.D=256,512")
        ->allow_extra_args(false);
    app.add_option("--strategy", choices_.strategies, "only this strategy: conv2d=grouped")
        ->allow_extra_args(false);
    app.add_option("--baselines", baselines_,
                   fmt::format("baselines to time, which run the models separately: of {}; "
                               "default: the preset's, or all",
                               fmt::join(baseline_names(), ", ")));
    app.add_option("--device", choices_.devices,
                   "cpu, cuda or cuda:0; auto: the CPU and, where there is one, the GPU")
        ->delimiter(',');
    app.add_option("--tf32", tf32_, "on: on a GPU float32 factors may be rounded to TF32")
        ->check(CLI::IsMember({"on", "off"}))
        ->capture_default_str();
    app.add_option("--dtype", choices_.dtypes, "f32, f64, f16 or bf16")->delimiter(',');
    app.add_option("--mode", choices_.modes, "default, eager, reduce-overhead or max-autotune")
        ->delimiter(',');
    app.add_option("--phase", choices_.phases, "forward, backward or step")->delimiter(',');
    app.add_option("--threads", threads_, "CPU threads; default: as many as cores");
    app.add_option("--seed", seed_, "of everything random")
        ->check(not_a_seed)
        ->capture_default_str();
    app.add_option("--budget", budget_, "seconds of timing per trial; default: the preset's")
        ->check(not_positive);
    app.add_option("--timeout", timeout_,
                   "seconds after which a silent trial counts as hanging; default: a minute and "
                   "more, by budget and work")
        ->check(not_positive);
    app.add_option("--name", name_, "a label, to find the sweep by");
    app.add_option("--top", top_, "rows of the summary, the largest speedups first; 0: all")
        ->check(negative);
    app.add_option("--peer", peer_,
                   "also time torch.compile in this Python, of one model and of vmap, as python3");
    app.add_flag("-c,--compiled", compiled_,
                 "as --mode eager,default with --peer: what is compiled beside what is not");
    app.add_option("--json", json_, "write the report");
    app.add_flag("--dry-run", dry_run_, "say what would run and how long, and run nothing");
    app.add_option("--machines", machines_,
                   "with --dry-run: how long it takes on so many that are alike")
        ->check(not_positive)
        ->needs("--dry-run");
    against_.declare(app);
    app.add_flag("--quiet", quiet_, "print nothing but errors");
    part_option_ = app.add_option(
        "--part", part_,
        "K/N: the cases of one of N machines, even by estimated time; workbench store "
        "merge puts the parts together");
    app.add_flag("--each-machine", each_,
                 "every machine runs all cases: those of mpirun's ranks; alone this one, and "
                 "workbench store merge puts several together")
        ->excludes(part_option_);
    app.add_flag("--allow-sharing", sharing_,
                 "under mpirun: let several ranks measure on the same cores");
    auto* resume = app.add_flag("--resume", resume_,
                                "continue the interrupted sweep of this name; asked the same");
    app.add_option("--again", again_,
                   "with --resume: measure again what other programs disturbed, also of a sweep "
                   "that is complete")
        ->check(CLI::IsMember({"disturbed"}))
        ->needs(resume);
    app.add_flag("--no-store", no_store_, "keep no result in the store")
        ->excludes(resume)
        ->excludes(part_option_);
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    check_apart({{"--json", json_}}, {}, db_);
    if (!json_.empty() && json_ != "-") check_writable_place(json_);
    const Preset preset = find_preset(preset_);
    open_devices(choices_.devices.empty() ? preset.devices : choices_.devices);
    if (compiled_ && choices_.modes.empty()) choices_.modes = {"eager", "default"};
    if (compiled_ && peer_.empty()) peer_ = python_of_torch();
    std::vector<SweepCase> cases = sweep_cases(preset, choices_);
    SweepSettings settings;
    settings.budget_s = budget_ > 0 ? budget_ : preset.budget_s;
    if (part_option_->count() > 0)
      settings.part = take_part(parse_part(part_), settings.budget_s, &cases);
    settings.each_machine = each_;
    if (each_) settings.part.whole = cases_digest(cases);
    settings.seed = seed_;
    settings.tf32 = tf32_ == "on";
    settings.timeout_s = timeout_;
    settings.peer = peer_;
    settings.all_cores = threads_ == 0;
    // Under MPI, OpenMP's default may be one thread.
    settings.threads = set_threads(threads_ == 0 && launch().mpi ? usable_cores() : threads_);
    settings.baselines = baselines_.empty() ? preset.baselines : parse_baselines(baselines_);
    settings.networks = preset.networks;
    settings.min_samples = static_cast<int>(preset.min_samples);
    settings.forced = parse_strategies(choices_.strategies);

    if (!peer_.empty() && !dry_run_) settings.peer_lacks = peer_lacks(peer_);
    const std::unique_ptr<Cluster> cluster = dry_run_ ? nullptr : Cluster::join();
    if (cluster && cluster->rank() > 0) return serve_rank(*cluster, cases, settings);
    if (cluster) settings.threads = threads_;  // each machine chooses by its own number of cores
    const int code = run_sweep(cluster.get(), preset, cases, settings);
    if (cluster) cluster->set_code(code);
    return code;
  }

 private:
  /// `cluster`: the other ranks that measure; nullptr without any.
  int run_sweep(Cluster* cluster, const Preset& preset, const std::vector<SweepCase>& cases,
                const SweepSettings& settings) {
    against_.prepare(db_, [&](SweepReport* other) { keep_asked(choices_, cases, other); });
    const std::string name = name_.empty() ? preset.name : name_;
    if (dry_run_) {
      print_plain(upcoming_text(name, cases, settings, ""));
      return 0;
    }
    std::vector<MeasuringRank> ranks;
    if (cluster) ranks = measuring_ranks(*cluster, cases, sharing_);
    std::vector<Environment> machines;
    for (const MeasuringRank& r : ranks) machines.push_back(r.environment);
    SweepSession session({name, typed_command(), cases, settings, no_store_ ? "" : Store::path(db_),
                          wanted_resume(), machines});
    std::vector<std::unique_ptr<Worker>> workers;
    for (const MeasuringRank& r : ranks)
      workers.push_back(
          std::make_unique<RankWorker>(*cluster, r, session.runner().cases(), cases.size()));
    session.runner().use_workers(std::move(workers));
    if (!quiet_) {
      print_plain(upcoming_text(name, session.runner().cases(), settings, kept_text(session)));
      if (!settings.peer_lacks.empty())
        print_plain(fmt::format("note: {} is not there: [{}] {}\n", kPeer, printable(peer_),
                                printable(settings.peer_lacks, 200)));
      if (!session.network().empty())
        print_plain(
            fmt::format("note: the store lies on {}: it keeps its journal by DELETE, not WAL, "
                        "which is slower{}\n",
                        session.network(), cluster ? "; rank 0 alone opens it" : ""));
      if (!session.busy().empty()) print_plain(fmt::format("note: {}\n", session.busy()));
    }
    std::fflush(stdout);
    catch_cancel();
    SweepPrinter printer(session, quiet_);
    session.runner().add(printer);
    const std::string state = session.run();
    const SweepReport& report = session.report();
    if (!json_.empty()) write_json(json_, to_json(report));
    if (state == "cancelled") throw Cancelled();
    if (!quiet_)
      print_plain(
          summary_text(report, {top_, preset.published, preset.published_note, preset.networks}));
    std::vector<Complaint> complaints = against_.check(report, quiet_);
    complaints.push_back(failed_trials(report));
    return complain(complaints);
  }

  Resume wanted_resume() const {
    return !resume_ ? Resume::no : again_.empty() ? Resume::missing : Resume::disturbed;
  }

  /// The part of the first line that names the store.
  std::string kept_text(const SweepSession& session) const {
    if (no_store_) return "";
    return resume_ ? fmt::format("; continues sweep {}, {} cases are done", session.stored_as(),
                                 session.done_before())
                   : fmt::format("; stored as sweep {}", session.stored_as());
  }

  /// "on cpu, no GPU (no driver: ...)": what runs where, and why nothing runs on a GPU.
  static std::string where_text(const std::vector<SweepCase>& cases) {
    std::vector<std::string> devices;
    bool cpu = true;
    for (const SweepCase& c : cases) {
      cpu = cpu && c.device.is_cpu();
      if (std::find(devices.begin(), devices.end(), c.device.str()) == devices.end())
        devices.push_back(c.device.str());
    }
    std::string text = fmt::format("on {}", fmt::join(devices, " and "));
    if (!cpu) return text;
    // Not looked for where no device but the CPU is asked for.
    const std::string why = device_runtime(c10::kCUDA) ? why_none(c10::kCUDA) : "";
    return text + (why.empty() ? ", the GPU not asked for" : ", no GPU (" + why + ")");
  }

  /// What is about to run: one line, with --dry-run one more for each target.
  std::string upcoming_text(const std::string& name, const std::vector<SweepCase>& cases,
                            const SweepSettings& settings, const std::string& kept) const {
    double silent_s = 0;
    std::vector<std::pair<std::string, std::vector<SweepCase>>> targets;
    for (const SweepCase& c : cases) {
      silent_s = std::max(silent_s, trial_limit_s(c, settings));
      if (targets.empty() || targets.back().first != c.target->name)
        targets.emplace_back(c.target->name, std::vector<SweepCase>{});
      targets.back().second.push_back(c);
    }
    const std::string head = fmt::format(
        "sweep {}{}: {} cases, {} trials, about {}; {}; a trial silent for {} counts as "
        "hanging{}\n",
        name, settings.part.text.empty() ? "" : ", part " + settings.part.text, cases.size(),
        count_trials(cases), duration_text(estimate_seconds(cases, settings.budget_s)),
        where_text(cases), duration_text(silent_s), kept);
    if (!dry_run_) return head;
    const std::string shared = machines_ > 0 ? machines_text(cases, settings.budget_s) : "";
    Table table({"target", "cases", "trials", "N", "shapes", "strategies", "about"},
                {false, true, true});
    for (const auto& [target, group] : targets) {
      std::set<int64_t> ns;
      std::vector<std::string> shapes;
      for (const SweepCase& c : group) {
        ns.insert(c.n);
        if (std::find(shapes.begin(), shapes.end(), c.shape.text()) == shapes.end())
          shapes.push_back(c.shape.text());
      }
      table.add({target, fmt::format("{}", group.size()), fmt::format("{}", count_trials(group)),
                 fmt::format("{}", fmt::join(ns, ",")), listing(shapes, 2),
                 listing(group.front().strategies, 9),
                 duration_text(estimate_seconds(group, settings.budget_s))});
    }
    return head + shared + table.text("  ");
  }

  /// The estimated time on `--machines` machines, and how evenly the work is spread.
  std::string machines_text(const std::vector<SweepCase>& cases, double budget_s) const {
    double longest_s = 0, all_s = 0;
    int64_t idle = 0;
    for (const auto& share : shared_out(cases, machines_, budget_s)) {
      std::vector<SweepCase> own;
      for (const size_t i : share) own.push_back(cases[i]);
      const double own_s = estimate_seconds(own, budget_s);
      longest_s = std::max(longest_s, own_s);
      all_s += own_s;
      idle += own.empty();
    }
    const double busy = all_s / (longest_s * static_cast<double>(machines_));
    return fmt::format(
        "on {} machines: about {}, they are busy {:.0f} % of it{}\n", machines_,
        duration_text(longest_s), 100 * busy,
        idle > 0 ? fmt::format(", {} {} nothing to do", idle, idle == 1 ? "has" : "have") : "");
  }

  SweepChoices choices_;
  Against against_;
  std::string preset_, name_, json_, db_, again_, baselines_, peer_, part_, tf32_ = "off";
  CLI::Option* part_option_ = nullptr;
  int threads_ = 0;
  uint64_t seed_ = 0;
  double budget_ = 0, timeout_ = 0;
  int64_t top_ = 0, machines_ = 0;
  bool compiled_ = false, quiet_ = false, no_store_ = false, resume_ = false, dry_run_ = false,
       sharing_ = false, each_ = false;
};

const bool registered = add_command<SweepCommand>(
    "sweep", "run a preset: every strategy of every target, checked and timed");

}  // namespace
}  // namespace wide::sweep_command
