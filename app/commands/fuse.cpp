#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/cli.h"
#include "app/fuse/export.h"
#include "app/fuse/policy.h"
#include "app/fuse/text.h"
#include "app/fuse/unstack.h"
#include "app/results/keeper.h"
#include "app/results/table.h"
#include "app/sandbox/output_files.h"
#include "app/sandbox/sandbox.h"
#include "app/version.h"
#include "data/bytes/part_file.h"
#include "data/machine/gpu.h"
#include "data/machine/peaks.h"
#include "data/reports/sweep/chrome_trace.h"
#include "data/reports/sweep/report_json.h"
#include "data/store/store.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::fuse_command {
namespace {

class Fuse : public Command {
 public:
  void declare(CLI::App& app) override {
    app.footer(
        "In Python, once (forward's arguments name the inputs, here x):\n"
        "  torch.export.save(torch.export.export(model.eval(), (example,)), 'net.pt2')\n"
        "  for i, m in enumerate(models): torch.save(m.state_dict(), f'w{i}.pt')\n"
        "  safetensors.torch.save_file({'x': torch.stack(inputs)}, 'x.safetensors')\n"
        "then\n"
        "  workbench fuse net.pt2 --weights w*.pt --inputs x.safetensors --outputs y.safetensors");
    app.add_option("MODEL", subject_.model,
                   ".pt2 of torch.export, TorchScript, or a registered name (workbench list)")
        ->required();
    app.add_option(
        "--weights", subject_.weights,
        "one per model: .safetensors, state_dict .pt/.pth/.bin, sharded index, folder or glob");
    app.add_option(
        "--inputs", subject_.inputs,
        "a .safetensors of inputs by forward's argument names (nested: batch.image, x.0), "
        "each [N, ...]");
    app.add_option("--shared-inputs", subject_.shared_inputs,
                   "inputs given once, without N, for all models")
        ->delimiter(',');
    app.add_option("--input", subject_.random_inputs,
                   "random input: x=2x3x64x64:f32, ids=2x12:i64[0,1000); integers default to 0; "
                   "may be repeated")
        ->allow_extra_args(false);
    app.add_option("-n,--n", subject_.n,
                   "numbers of models, 4,8,16: the first of the weights, else seeded copies");
    app.add_flag("--share-weights", subject_.share_weights,
                 "weights equal in all checkpoints are kept and computed once");
    app.add_option("--outputs", outputs_,
                   "write output.0, output.1, ... stacked [N, ...]: FILE.safetensors");
    app.add_option("--reduce", reduce_,
                   "one answer of all models: mean, std (with N-1) or vote (the class that most "
                   "models score highest along the last dimension; the first of equals)");
    app.add_option("--unstack", unstack_,
                   "write one .safetensors checkpoint per model into this folder");
    app.add_option("--export", exports_,
                   "take the wide program home, in ATen operators alone and with its weights: "
                   "FILE.pt2 for torch.export.load, FILE.ts for torch.jit.load; may be repeated")
        ->allow_extra_args(false);
    app.add_option("--strategy", strategies_,
                   "PRIMITIVE=STRATEGY, as conv2d=grouped or *=vmap; may be repeated")
        ->allow_extra_args(false);
    app.add_option("--device", subject_.device, "cpu, cuda or cuda:0")->capture_default_str();
    app.add_option("--dtype", subject_.dtype, "f32, f64, f16 or bf16; default: the file's own");
    app.add_option("--mode", mode_, "default, eager, reduce-overhead or max-autotune")
        ->capture_default_str();
    app.add_option("--tf32", tf32_, "on: on a GPU float32 factors may be rounded to TF32")
        ->check(CLI::IsMember({"on", "off"}))
        ->capture_default_str();
    app.add_option("--threads", threads_, "CPU threads; default: as many as cores");
    app.add_option("--seed", seed_, "of everything random")
        ->check(not_a_seed)
        ->capture_default_str();
    app.add_option("--budget", budget_, "seconds of timing per contender")
        ->check(not_positive)
        ->capture_default_str();
    app.add_option("--peer", peer_,
                   "also time torch.compile in this Python, of one model and of vmap, as python3; "
                   "a network from a file needs --trust, and is then read outside the sandbox");
    app.add_flag("--trust", subject_.trusted,
                 "let the network's file call every operator of LibTorch, for files whose maker "
                 "you know: it can then do what a program can");
    app.add_option("--timeout", timeout_,
                   "seconds without a heartbeat after which a network from a file counts as "
                   "hanging; default: ten minutes, and more for large files")
        ->check(not_positive);
    app.add_option("--json", json_, "write the report");
    app.add_flag("--explain", explain_, "show where every node went and what every step costs");
    app.add_option("--trace", trace_,
                   "write one call of the loop and one of the wide program, as they ran, as a "
                   "timeline that ui.perfetto.dev and chrome://tracing open: FILE.json");
    app.add_flag("--quiet", quiet_, "print nothing but errors");
    app.add_flag("--no-store", no_store_, "keep no result in the store");
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    open_devices({subject_.device});
    std::optional<SandboxPolicy> policy = policy_of(subject_);
    if (!peer_.empty() && policy && !subject_.trusted)
      fail(
          "[--peer] network from a file: got {}, expected --trust beside it, because another "
          "program cannot start inside the sandbox; try --trust if you know who made the file",
          printable(subject_.model));
    OutputFiles written{
        {"--outputs", outputs_}, {"--json", json_}, {"--trace", trace_}, {"--unstack", unstack_}};
    for (const std::string& path : exports_) written.emplace_back("--export", path);
    check_apart(written, policy ? policy->read : std::vector<std::string>(), db_);
    if (!policy) return fuse_all();
    policy->timeout_s = timeout_;
    for (const std::string& path : {outputs_, json_, trace_})
      if (!path.empty()) policy->write.push_back(path);
    policy->write.insert(policy->write.end(), exports_.begin(), exports_.end());
    if (!unstack_.empty()) policy->checkpoints.push_back(unstack_);
    policy->folders.push_back(unstack_);
    if (!no_store_) policy->db = Store::path(db_);
    if (!peer_.empty()) return fuse_all();
    lacks_ = sandbox_lacks();
    return run_in_sandbox(*policy, [this] { return fuse_all(); });
  }

 private:
  int fuse_all() {
    FuseOptions options;
    options.compile.widen.force = parse_strategies(strategies_);
    const c10::Device device = parse_device(subject_.device);
    allow_tf32(tf32_ == "on");
    std::string mode_note;
    options.compile.mode = mode_on(device, parse_mode(mode_), &mode_note);
    options.compile.autotune_s = budget_;
    if (const auto why = unsupported(options.compile.mode, device)) throw Error(*why, 2);
    options.threads = options.compile.threads = set_threads(threads_);
    options.budget_s = budget_;
    options.seed = subject_.seed = seed_;
    options.explain = explain_;
    options.coverage_time = !json_.empty();
    options.peer = {peer_, peer_.empty() ? "" : peer_lacks(peer_), budget_, 10, options.threads};
    if (!reduce_.empty()) options.reduce = parse_reduce(reduce_);
    for (const auto& [option, path] :
         {std::pair("--outputs", outputs_), {"--json", json_}, {"--trace", trace_}})
      if (!path.empty() && path != "-") check_place(option, path);
    std::filesystem::path other = outputs_;
    for (const char* format : {".npz", ".npy", ".pt", ".pth", ".csv", ".json"})
      if (other.extension() == format)
        fail("[--outputs] file: got {}, expected a .safetensors; try {}", printable(outputs_),
             printable(other.replace_extension(".safetensors").string()));
    if (!unstack_.empty()) check_unstack_folder(unstack_);

    for (const std::string& path : exports_) check_export_path(path);

    Subject subject(subject_);
    FuseReport report;
    report.model = subject_.model;
    report.device = subject_.device;
    report.dtype = short_name(subject.dtype());
    report.mode = to_string(options.compile.mode);
    report.reduce = reduce_;
    report.trusted = subject_.trusted;
    report.largest_n = subject.largest_n();
    if (const LoadedWeights& loaded = subject.loaded(); !loaded.tensors.empty())
      report.weights = {subject.ns().back(), loaded.file_bytes, loaded.packed_bytes,
                        loaded.equal_bytes, 1e9 * loaded.seconds};
    report.environment = capture_environment(typed_command(), version(), git_state());
    add_gpu(report.environment, device);
    const Peaks peaks = machine_peaks(device, options.threads);
    use_peaks(device, options.threads, peaks);
    add_peaks(report.environment, peaks);

    // Opened first, so that a store that cannot be written is an error before the work, not after
    // it.
    if (!no_store_) keeper().open(Store::path(db_));

    catch_cancel();
    Tensors outputs;
    int64_t shared_nodes = 0;
    for (const int64_t n : subject.ns()) {
      options.timeline = (explain_ || !trace_.empty()) && n == subject.ns().back();
      FuseOutcome outcome = fuse(subject, n, options);
      outputs = std::move(outcome.outputs);
      shared_nodes = outcome.shared_nodes;
      outcome.result.notes.insert(outcome.result.notes.begin(), subject.notes().begin(),
                                  subject.notes().end());
      report.curve.push_back(std::move(outcome.result));
    }
    if (!mode_note.empty()) report.curve.back().notes.push_back(mode_note);
    for (const std::string& lack : lacks_) report.curve.back().notes.push_back("sandbox: " + lack);
    if (report.curve.size() > 1) report.along_n = along_n(report.curve);
    std::exception_ptr failed;  // thrown when the report is out, so that its results are kept
    try {
      write_results(subject, options, outputs, &report.curve.back());
    } catch (...) {
      failed = std::current_exception();
    }
    try {
      if (!json_.empty()) write_json(json_, to_json(report));
      if (!trace_.empty()) write_json(trace_, chrome_trace(report, report.curve.back()));
      if (!no_store_) keeper().add(fuse_document(report));
      if (!quiet_ && json_ != "-" && trace_ != "-") print(report, shared_nodes);
    } catch (...) {
      if (!failed) throw;
    }
    if (failed) std::rethrow_exception(failed);
    return complain({incorrect_point(report)});
  }

  /// Throws Error before the work if the output cannot be a file there.
  static void check_place(const char* option, const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (!folder.empty() && !std::filesystem::is_directory(folder, error))
      fail("[{}] folder: got no {}, expected one to write to; try another path", option,
           printable(folder.string()));
    check_writable_place(path);
  }

  /// Writes outputs, checkpoints and the wide program; notes of them are added to `last`.
  void write_results(Subject& subject, const FuseOptions& options, const Tensors& outputs,
                     FuseResult* last) const {
    if (!outputs_.empty()) save_outputs(outputs);
    if (!unstack_.empty()) last->notes.push_back(unstack(subject, last->n, unstack_));
    if (exports_.empty() || !last->correctness.pass) return;
    for (std::string& note :
         export_wide(subject, last->n, options, last->correctness, outputs, exports_))
      last->notes.push_back(std::move(note));
  }

  void save_outputs(const Tensors& outputs) const {
    std::vector<std::pair<std::string, Tensor>> named;
    for (size_t i = 0; i < outputs.size(); ++i)
      named.emplace_back(fmt::format("output.{}", i), outputs[i]);
    save_tensors(outputs_, named);
  }

  void print(const FuseReport& report, int64_t shared_nodes) const {
    print_plain(fuse_text(report, report.curve.back(), shared_nodes));
    if (report.curve.size() > 1) print_plain(fmt::format("\n{}", curve_text(report)));
    if (explain_) print_plain(explain_text(report, report.curve.back()));
  }

  static Complaint incorrect_point(const FuseReport& report) {
    for (const FuseResult& r : report.curve)
      if (!r.correctness.pass)
        return {4,
                fmt::format("[{}] correctness at n={}: got {}, expected the answers of the "
                            "separate models; try --strategy *=vmap",
                            printable(report.model), r.n, printable(r.correctness.failure, 300))};
    return {};
  }

  SubjectOptions subject_;
  std::vector<std::string> strategies_, exports_,
      lacks_;  // lacks_: of the kernel, for a sandbox
  std::string outputs_, json_, trace_, db_, reduce_, unstack_, peer_, mode_ = "default",
                                                                      tf32_ = "off";
  int threads_ = 0;
  uint64_t seed_ = 0;
  double budget_ = 1.5, timeout_ = 0;
  bool explain_ = false, quiet_ = false, no_store_ = false;
};

const bool registered = add_command<Fuse>(
    "fuse", "fuse N models of one network, check, and time against separate models");

}  // namespace
}  // namespace wide::fuse_command
