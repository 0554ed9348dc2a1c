#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/cluster/launch.h"
#include "app/cluster/place.h"
#include "app/cluster/rank_all_gather.h"
#include "app/fuse/export.h"
#include "app/options.h"
#include "app/results/runs.h"
#include "app/sandbox/devices.h"
#include "app/sandbox/output_files.h"
#include "app/sandbox/sandbox.h"
#include "app/train/outputs/row_log.h"
#include "app/train/policy.h"
#include "app/train/run/merge.h"
#include "app/train/run/run_lock.h"
#include "app/train/run/together.h"
#include "app/train/train.h"
#include "data/bytes/part_file.h"
#include "data/escape.h"
#include "data/machine/gpu.h"
#include "data/reports/run/event_file.h"
#include "data/store/store.h"
#include "data/store/sweeps/part.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/train/optimizer/optimizer.h"

namespace wide::train_command {
namespace {

namespace fs = std::filesystem;

// Options that --resume and --merge accept have headings of their own in --help.
constexpr const char* kResults = "Results and resources, also with --resume and --merge";
constexpr const char* kLength = "Length, also with --resume";

/// The names of the optimisers that have this hyperparameter, with commas between them.
std::string optimizers_with(const std::string& key) {
  std::vector<std::string> names;
  for (const Optimizer& o : optimizers())
    if (o.index(key) >= 0) names.push_back(o.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Optimisers' hyperparameters without an option of their own, which `--set` gives.
std::set<std::string> keys_of_set() {
  std::set<std::string> keys;
  for (const Optimizer& o : optimizers())
    for (const Hyperparameter& h : o.hyperparameters) keys.insert(h.name);
  for (const char* option : {"lr", "weight_decay", "momentum"}) keys.erase(option);
  return keys;
}

class Train : public Command {
 public:
  void declare(CLI::App& app) override {
    app.footer(
        "In Python, once:\n"
        "  torch.export.save(torch.export.export(model, (example,), dynamic_shapes=...), "
        "'net.pt2')\n"
        "  numpy.savez('data.npz', x=images, y=labels)\n"
        "then\n"
        "  workbench train net.pt2 --data data.npz --validation 0.2 --lr log:1e-4..1e-1 -n 32 "
        "--metric accuracy\n"
        "A value of a hyperparameter is a number, a list of one a configuration, log:1e-4..1e-1,\n"
        "lin:0..0.1, 0..63 (evenly, ends included) or loguniform:1e-4..1e-1 (drawn); a range that\n"
        "says how many, log:1e-4..1e-1:8, is a list, in --grid too.");
    auto* network = app.add_option("NET", options_.network,
                                   ".pt2 of torch.export, TorchScript, or a registered name");
    declare_network(app);
    declare_data(app);
    declare_models(app);
    declare_steps(app);
    declare_results(app);
    app.add_option("--resume", resume_,
                   "go on with the run in this folder; nothing else need be "
                   "said")
        ->excludes(network);
    app.add_option("--merge", merge_,
                   "DIR PART...: put the runs of all parts (--part) together as one run in DIR")
        ->expected(2, 1 << 20)
        ->excludes(network)
        ->excludes("--resume");
    app_ = &app;
  }

  int run() override {
    if (launch().size > 1) check_ranks();
    unbind();
    std::optional<SavedRun> saved;
    if (!resume_.empty())
      saved = resumed();
    else if (!merge_.empty())
      saved = merged();
    else
      prepare_new();
    open_devices({options_.device});
    TrainSinks sinks = sinks_;
    if (!options_.plan.empty() && !saved) sinks.plan = read_saved_run(options_.plan).plan;
    sinks.command = typed_command();
    if (sinks.worse_percent > 0 && against_.empty())
      fail("[--fail-on-regression] run: got none, expected one to compare with; try --against RUN");
    if (!against_.empty() && leads())
      sinks.against = std::make_shared<RunReport>(find_run(against_, sinks.db));
    sinks.store = !no_store_;
    if (sinks.wait && no_store_)
      fail("[--wait] store: got --no-store, expected one that requests stand in; try --db FILE");
    if (sinks.name.empty()) sinks.name = fs::path(options_.save).filename();
    if (!sinks.json.empty() && sinks.json != "-") check_writable_place(sinks.json);
    for (const std::string& path : sinks_.exports) check_export_path(path);
    check_apart(outputs(), files_read(options_), sinks.db);
    if (lock_ && !lock_->lack().empty()) sinks.lacks.push_back(lock_->lack());
    const auto work = [&] {
      const int share = launch().mpi ? threads_of_rank(rank_group()) : 0;
      const int threads = options_.threads > 0 ? options_.threads : share;
      if (threads > 0) set_threads(threads);
      parse_device(options_.device);  // not before the fork, which a GPU's driver does not survive
      allow_tf32(false);
      return train(options_, sinks, saved ? &*saved : nullptr);
    };
    // Each rank takes a GPU of its own, unless one other than the first was named.
    const bool any_gpu = options_.device == "cuda" || options_.device == "cuda:0";
    if (launch().size > 1 && any_gpu)
      if (const std::string note =
              take_gpu({launch().place, launch().local}, gpus_of(device_nodes("/dev")));
          !note.empty())
        sinks.lacks.push_back(note);
    std::optional<SandboxPolicy> policy = policy_of(options_, sinks, saved ? &*saved : nullptr);
    if (!policy) return work();
    policy->timeout_s = timeout_;
    for (const std::string& lack : sandbox_lacks()) sinks.lacks.push_back("sandbox: " + lack);
    if (launch().size == 1) {
      std::error_code error;  // removes what ranks left that were killed
      if (saved && lock_) fs::remove_all(ranks_folder(options_.save), error);
      return run_in_sandbox(*policy, work);
    }
    std::optional<RanksFolder> folder;
    if (leads()) folder.emplace(options_.save);
    return run_in_sandbox(*policy, work, [this] {
      return std::make_unique<RankAllGather>(
          Cluster::join(),
          "train --resume " + shell_word(options_.save) + " with as many as there are");
    });
  }

 private:
  /// Whether this rank writes the common results.
  static bool leads() { return launch().rank == 0; }

  /// Throws Error for options that several ranks do not support.
  void check_ranks() const {
    if (!launch().refusal.empty()) throw Error(launch().refusal, 1);
    for (const char* alone : {"--merge", "--part", "--bench", "--wait", "--no-save", "--plan"})
      if (app_->count(alone) > 0)
        fail("[{}] ranks: got {}, expected one process; try it without mpirun", alone,
             launch().size);
  }

  OutputFiles outputs() const {
    OutputFiles all{
        {"--json", sinks_.json}, {"--log", options_.log}, {"--unstack", sinks_.unstack}};
    for (const std::string& path : sinks_.exports) all.emplace_back("--export", path);
    if (!options_.no_save)
      for (const std::string& path : run_parts(options_.save)) all.emplace_back("--save", path);
    return all;
  }

  void declare_network(CLI::App& app) {
    app.add_option("--weights", options_.weights, "start from these, one checkpoint per model");
    app.add_option("--init", options_.init,
                   "fresh (each model its own draw of PyTorch's default) or file (all from NET's "
                   "values)");
    app.add_option("--eval-model", options_.eval_model,
                   "the evaluation form of a network that has one form a file");
    app.add_flag("--as-exported", options_.as_exported,
                 "switch neither dropout nor batch norm between training and evaluation");
    app.add_option("--freeze", options_.freeze, "parameters that are not trained, by globs");
    app.add_option("--no-decay", options_.no_decay, "parameters without weight decay, by globs");
    app.add_option("--dtype", options_.dtype, "f32 or f64; default: the file's own");
    app.add_flag("--trust", options_.trusted,
                 "let the network's file call every operator of LibTorch");
  }

  void declare_data(CLI::App& app) {
    app.add_option("--data", options_.data,
                   "safetensors, .npz, .npy, a folder of .npy, or CSV: columns [S, ...]");
    app.add_option("--rows", options_.rows,
                   "a data file of columns model, row and, where rows are held back, use (0 to "
                   "learn, 1 to validate, 2 to test): which rows of --data are which model's");
    app.add_option(
        "--epoch-data", options_.epoch_data,
        "a folder: epoch k, counted from 0, trains on k.safetensors of it, with the columns "
        "and as many rows as --data, which all evaluations see");
    app.add_option("--own", options_.own, "columns that are [N, S, ...], of each model its own");
    app.add_option("--column", options_.columns, "ARG=COLUMN[,COLUMN]: what forward's ARG is")
        ->allow_extra_args(false);
    app.add_option("--target", options_.target,
                   "what the loss compares with; default: the column "
                   "that is left");
    app.add_option("--normalize", options_.normalize,
                   "ARG=standard, from the training rows, or ARG=MEAN,STD")
        ->allow_extra_args(false);
    app.add_option("--augment", options_.augment,
                   "flip,crop:PAD,cutout:SIZE of [C, H, W] inputs in training, before they are "
                   "normalised; own draws per model and sample")
        ->delimiter(',');
    app.add_option("--validation", options_.validation, "a file, or a fraction of all rows");
    app.add_option("--test", options_.test, "the same; looked at once, after training");
    app.add_option("--folds", options_.folds, "cross-validation: each model learns without one");
    app.add_option("--fold", options_.fold, "the column that says each row's fold");
    app.add_option("--group", options_.group, "rows of one value are never torn apart");
    app.add_option("--sample-weight", options_.sample_weight, "the column of rows' weights");
    app.add_option("--output", options_.output, "which of forward's outputs loss and metrics see");
  }

  void declare_models(CLI::App& app) {
    app.add_option("-n,--n", options_.n, "number of models")->check(not_positive);
    app.add_option("--seeds", options_.seeds, "seeds of every configuration")->check(not_positive);
    app.add_option("--seed", options_.seed, "of the first model, and of splits")
        ->check(not_a_seed)
        ->capture_default_str();
    app.add_option("--lr", options_.lr, "learning rate");
    app.add_option("--weight-decay", options_.weight_decay, "weight decay");
    app.add_option("--momentum", options_.momentum, "of " + optimizers_with("momentum"));
    app.add_option("--set", options_.set,
                   fmt::format("KEY=VALUE of {} clip label_smoothing dropout ema seed seed.init "
                               "seed.order seed.dropout fold",
                               fmt::join(keys_of_set(), " ")))
        ->allow_extra_args(false);
    app.add_option("--grid", options_.grid, "KEY=LIST; several: their product")
        ->allow_extra_args(false);
    app.add_option("--models", options_.models, "a CSV with a row per model, columns as the keys");
    app.add_option("--part", options_.part,
                   "K/N: the models of one of N machines; train --merge puts the parts together");
  }

  void declare_steps(CLI::App& app) {
    app.add_option("--loss", options_.loss,
                   "cross_entropy, nll, mse, l1, huber, bce_with_logits or output.K, with "
                   ":KEY=VALUE; default: cross_entropy for whole numbers, else mse");
    app.add_option("--optimizer", options_.optimizer,
                   optimizers_with("lr") + "; default: " + TrainerOptions().optimizer);
    app.add_option("--schedule", options_.schedule,
                   "constant, cosine[:MIN], linear, step:EVERY,GAMMA or onecycle")
        ->capture_default_str();
    app.add_option("--warmup", options_.warmup, "steps, or a share of all of them as 5%");
    app.add_option("--batch,--batch-size", options_.batch, "rows a step; default: 32")
        ->check(not_positive);
    app.add_option("--epochs", options_.epochs, "default: 10")->group(kLength)->check(not_positive);
    app.add_option("--steps", options_.steps, "instead of epochs")
        ->group(kLength)
        ->check(not_positive);
    app.add_option("--order", options_.order, "shuffled or sequential")->capture_default_str();
    app.add_flag("--same-order", options_.same_order, "all models draw the first one's order");
    app.add_flag("--drop-last", options_.drop_last, "leave a smaller last batch out");
    app.add_option("--metric", options_.metrics,
                   "loss accuracy top5 f1 auc ece, or loss mae rmse r2")
        ->delimiter(',');
    app.add_option("--monitor", options_.monitor, "the metric that says what is best")
        ->capture_default_str();
    app.add_option("--eval-every", options_.eval_every, "steps; default: an epoch")
        ->check(not_positive);
    app.add_option("--patience", options_.patience, "evaluations without a better value")
        ->check(not_positive);
    app.add_option("--min-delta", options_.min_delta, "what counts as better")->check(negative);
    app.add_option("--prune", options_.prune, "FACTOR[,GRACE]: successive halving");
    app.add_flag("--exact", options_.exact,
                 "the same bits whatever N, the other models and the threads are");
    app.add_option("--check", options_.check, "steps held against float64 first")
        ->check(negative)
        ->capture_default_str();
    app.add_option("--plan", options_.plan,
                   "the folder of an earlier run: its strategies and ranges, and so its bits");
    app.add_option("--threads", options_.threads, "CPU threads; default: as many as cores")
        ->group(kResults)
        ->check(not_positive);
    app.add_option("--device", options_.device, "cpu, cuda or cuda:0")->capture_default_str();
  }

  void declare_results(CLI::App& app) {
    app.add_option("--save", options_.save, "the run's folder; default: runs/NAME");
    app.add_flag("--no-save", options_.no_save, "write no folder");
    app.add_flag("--overwrite", overwrite_, "write over the run in the folder")->group(kResults);
    app.add_option("--save-every", options_.save_every,
                   "steps; default: at evaluations, for at most 2% of the time")
        ->check(not_positive);
    app.add_option("--keep", options_.keep, "checkpoints of the best K models alone")
        ->check(not_positive);
    app.add_option("--log", options_.log,
                   "FILE.csv, FILE.jsonl or -: a row per model and evaluation while it runs; DIR/: "
                   "TensorBoard's files, one run per model")
        ->group(kResults);
    app.add_option("--export", sinks_.exports,
                   "FILE.pt2 or FILE.ts: all models in evaluation with their best weights, "
                   "normalisation included, as ATen operators alone; may be repeated")
        ->group(kResults)
        ->allow_extra_args(false);
    app.add_option("--unstack", sinks_.unstack,
                   "write a .safetensors checkpoint of each model's best weights into this folder, "
                   "of the last ones where there is no best")
        ->group(kResults);
    app.add_option("--require", sinks_.require,
                   "'accuracy>=0.95': mean over models, else min:, best: or ensemble:; "
                   "'diverged==0'; exit code 3 where it does not hold")
        ->group(kResults)
        ->allow_extra_args(false);
    app.add_option("--against", against_,
                   "compare with this run, a folder or a stored one, model by model")
        ->group(kResults);
    app.add_option("--fail-on-regression", sinks_.worse_percent,
                   "exit with 3 when it is WORSE than there by more than this percentage")
        ->group(kResults)
        ->check(not_positive);
    app.add_flag(
        "--bench", sinks_.bench,
        "time one step beside separate models in a loop, over threads, and vmap; trains nothing");
    app.add_option("--budget", sinks_.budget_s, "seconds of --bench for each")
        ->check(not_positive)
        ->capture_default_str();
    app.add_option("--json", sinks_.json, "write the report")->group(kResults);
    app.add_option("--name", sinks_.name,
                   "of the run; default: its own when it is resumed, else NET's")
        ->group(kResults);
    app.add_flag("--quiet", sinks_.quiet, "print nothing but errors")->group(kResults);
    app.add_flag("--no-store", no_store_, "keep no result in the store")->group(kResults);
    app.add_option("--db", sinks_.db, "the store's file; default: $WORKBENCH_DB, or the user's own")
        ->group(kResults);
    app.add_flag("--wait", sinks_.wait,
                 "at each evaluation, wait for the request 'go' in the store's table run_request")
        ->group(kResults);
    app.add_option("--timeout", timeout_,
                   "seconds of silence after which a network counts as "
                   "hanging")
        ->group(kResults)
        ->check(not_positive);
  }

  static std::string absolute(const std::string& path) {
    std::error_code error;
    return path.empty() || !fs::exists(path, error) ? path : fs::absolute(path).string();
  }

  void prepare_new() {
    if (options_.network.empty())
      fail("[train] NET: got none, expected a network; try workbench train net.pt2 --data FILE");
    if (options_.data.empty())
      fail("[train] --data: got none, expected the rows to learn from; try --data data.npz");
    if (sinks_.name.empty()) sinks_.name = fs::path(options_.network).stem();
    if (app_->count("--part") > 0) check_part();
    if (options_.no_save && (options_.keep > 0 || options_.save_every > 0))
      fail(
          "[--no-save] run: got {} too, expected one or the other, as nothing is saved; try to "
          "leave one out",
          options_.keep > 0 ? "--keep" : "--save-every");
    if (sinks_.bench) {
      if (options_.device != "cpu")
        fail(
            "[--bench] device: got {}, expected cpu, where what it compares runs; try --device cpu",
            printable(options_.device));
      if (!sinks_.exports.empty() || !sinks_.unstack.empty())
        fail(
            "[--bench] run: got {} too, expected one or the other, as it trains nothing; try to "
            "leave one out",
            sinks_.exports.empty() ? "--unstack" : "--export");
      options_.no_save = no_store_ = true;
    }
    if (options_.save.empty()) options_.save = "runs/" + sinks_.name + part_name();
    options_.save = fs::absolute(options_.save).lexically_normal().string();
    for (std::string* path :
         {&options_.network, &options_.eval_model, &options_.data, &options_.validation,
          &options_.test, &options_.models, &options_.rows, &options_.epoch_data})
      *path = absolute(*path);
    for (std::string& path : options_.weights) path = absolute(path);
    if (!options_.no_save && leads()) lock_ = std::make_unique<RunLock>(options_.save);
    if (leads()) prepare_log();
    const bool there = has_run(options_.save);
    if (!options_.no_save && there && !overwrite_)
      fail(
          "[{}] --save: got a folder with a run in it, expected a new one; try --resume {} or "
          "--overwrite",
          printable(options_.save), shell_word(options_.save));
    options_.overwrite = overwrite_ && there && !options_.no_save;
    if (options_.overwrite) keep_weights();
  }

  static bool has_run(const std::string& folder) {
    std::error_code error;
    return fs::exists(fs::path(folder) / kRunState, error) ||
           fs::exists(fs::path(folder) / "report.json", error);
  }

  /// "-2-of-3", so that parts which save into one folder have different names.
  std::string part_name() const {
    if (options_.part.empty()) return "";
    const Part part = parse_part(options_.part);
    return fmt::format("-{}-of-{}", part.number, part.count);
  }

  /// Throws Error for options that need all models: a part does not have them.
  void check_part() const {
    parse_part(options_.part);
    if (!options_.prune.empty())
      fail(
          "[--prune] models: got --part too, expected one of them, as pruning compares all models; "
          "try to leave one out");
    for (const char* of_all :
         {"--require", "--against", "--export", "--unstack", "--bench", "--no-save"})
      if (app_->count(of_all) > 0)
        fail(
            "[{}] models: got --part too, expected it where all models are; try it with train "
            "--merge",
            of_all);
  }

  /// Throws Error if --overwrite would remove weights that this run starts from.
  void keep_weights() const {
    for (const std::string& weights : options_.weights) {
      const std::string path = fs::absolute(weights).lexically_normal().string() + "/";
      for (const std::string& part : run_parts(options_.save))
        if (path.rfind(part + "/", 0) == 0)
          fail(
              "[{}] --overwrite: got --weights out of it, expected other files; try another --save",
              printable(options_.save));
    }
  }

  /// A log file is replaced when the run begins. Event files of another run in its folder are an
  /// error, or removed with --overwrite. `own`: the log of the resumed run, which goes on.
  void prepare_log(const std::string& own = "") {
    std::string& log = options_.log;
    if (log.empty() || log == "-") return;
    std::error_code error;
    if (!log.ends_with('/') && fs::is_directory(log, error)) log += "/";
    const LogKind kind = log_kind(log);
    if (kind != LogKind::events) check_writable_place(log);
    log = fs::absolute(log).string();
    if (kind != LogKind::events || log == own) return;
    std::vector<fs::path> others;
    for (const auto& entry : fs::directory_iterator(log, error))
      for (const auto& file : fs::directory_iterator(entry.path(), error))
        if (file.path().filename() == kEventFile) others.push_back(file.path());
    if (!others.empty() && !overwrite_)
      fail(
          "[{}] --log: got a folder with a run in it, expected a new one; try another folder or "
          "--overwrite",
          printable(log));
    for (const fs::path& file : others) fs::remove(file, error);
  }

  /// Throws Error for options that may not change after a run has begun.
  void check_said(const std::string& by, bool longer) const {
    for (const CLI::Option* option : app_->get_options()) {
      if (option->count() == 0) continue;
      const std::string name = "--" + option->get_lnames().at(0), group = option->get_group();
      if (name != by && group != kResults && !(longer && group == kLength))
        fail(
            "[{}] {}: got it too, expected only what a run may change: {}--threads, --log; try a "
            "new run",
            by, name, longer ? "--epochs, --steps, " : "");
    }
  }

  /// A saved run keeps its name unless --name gives another.
  void name_as(const SavedRun& saved) {
    if (sinks_.name.empty()) sinks_.name = saved.state.name;
    if (sinks_.name.empty()) sinks_.name = fs::path(options_.network).stem();
  }

  /// Merges the parts into one run at its end, where only the steps over all models are left.
  SavedRun merged() {
    check_said("--merge", false);
    const std::string folder = fs::absolute(merge_.front()).lexically_normal().string();
    std::vector<std::string> parts;
    for (size_t i = 1; i < merge_.size(); ++i)
      parts.push_back(fs::absolute(merge_[i]).lexically_normal().string());
    const bool there = has_run(folder);
    if (there && !overwrite_)
      fail("[{}] --merge: got a folder with a run in it, expected a new one; try --overwrite",
           printable(folder));
    if (std::count(parts.begin(), parts.end(), folder))
      fail("[{}] --merge: got it as a part too, expected a new folder; try another",
           printable(folder));
    SavedRun saved = merge_runs(parts);
    const TrainOptions asked = options_;
    options_ = saved.options;
    options_.save = folder;
    options_.overwrite = there;
    options_.threads = asked.threads;
    options_.log = asked.log;
    lock_ = std::make_unique<RunLock>(folder);
    prepare_log();
    name_as(saved);
    return saved;
  }

  SavedRun resumed() {
    check_said("--resume", true);
    const std::string folder = fs::absolute(resume_).lexically_normal().string();
    std::error_code error;
    if (fs::is_directory(folder, error) && leads()) lock_ = std::make_unique<RunLock>(folder);
    SavedRun saved = read_saved_run(folder);
    const TrainOptions asked = options_;
    options_ = saved.options;
    options_.save = folder;
    if (asked.threads > 0) options_.threads = asked.threads;
    if (!asked.log.empty() && leads()) {
      options_.log = asked.log;
      prepare_log(saved.options.log);
    }
    if (asked.epochs > 0 || asked.steps > 0) {
      const std::string schedule = options_.schedule.substr(0, options_.schedule.find(':'));
      const bool longer = asked.epochs != options_.epochs || asked.steps != options_.steps;
      if (longer && (schedule == "cosine" || schedule == "linear" || schedule == "onecycle"))
        fail(
            "[--resume] --epochs: got another length, expected the one that the {} schedule ends "
            "with; try a new run with --weights {}",
            schedule, shell_word(folder + "/last"));
      if (longer && options_.warmup.ends_with("%"))
        fail(
            "[--resume] --epochs: got another length, expected the one that a warmup of {} is a "
            "share of; try a new run with --weights {}",
            printable(options_.warmup), shell_word(folder + "/last"));
      options_.epochs = asked.epochs;
      options_.steps = asked.steps;
      saved.defaults.erase("epochs");
    }
    name_as(saved);
    return saved;
  }

  TrainOptions options_;
  TrainSinks sinks_;
  std::string resume_, against_;
  std::vector<std::string> merge_;  // the folder of the merged run, then the parts
  bool no_store_ = false, overwrite_ = false;
  double timeout_ = 0;
  const CLI::App* app_ = nullptr;
  std::unique_ptr<RunLock> lock_;  // held until the run has ended
};

const bool registered = add_command<Train>(
    "train", "train N models of one network as one program, each with its own hyperparameters");

}  // namespace
}  // namespace wide::train_command
