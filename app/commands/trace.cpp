#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/cli.h"
#include "app/fuse/fuse.h"
#include "app/fuse/policy.h"
#include "app/fuse/text.h"
#include "app/results/table.h"
#include "app/sandbox/sandbox.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::trace_command {
namespace {

class Trace : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MODEL", subject_.model,
                   ".pt2 of torch.export, TorchScript, or a registered name (workbench list)")
        ->required();
    app.add_option("--wide", wide_, "also the wide program for so many models")
        ->check(not_positive);
    app.add_option("--weights", subject_.weights, "as for fuse");
    app.add_flag("--share-weights", subject_.share_weights, "as for fuse");
    app.add_option("--inputs", subject_.inputs, "as for fuse");
    app.add_option("--shared-inputs", subject_.shared_inputs, "as for fuse")->delimiter(',');
    app.add_option("--input", subject_.random_inputs, "as for fuse")->allow_extra_args(false);
    app.add_option("--strategy", strategies_, "PRIMITIVE=STRATEGY, as conv2d=grouped or *=vmap")
        ->allow_extra_args(false);
    app.add_option("--passes-off", passes_off_, "names of passes to leave out")->delimiter(',');
    app.add_option("--device", subject_.device, "cpu, cuda or cuda:0")->capture_default_str();
    app.add_option("--dtype", subject_.dtype, "f32, f64, f16 or bf16; default: the file's own");
    app.add_option("--threads", threads_, "CPU threads; default: as many as cores");
    app.add_option("--seed", subject_.seed, "of everything random")
        ->check(not_a_seed)
        ->capture_default_str();
    app.add_flag("--trust", subject_.trusted, "as for fuse");
    app.add_option("--timeout", timeout_, "as for fuse")->check(not_positive);
    app.add_flag("--steps", steps_, "with --wide: the program after every pass");
  }

  int run() override {
    open_devices({subject_.device});
    std::optional<SandboxPolicy> policy = policy_of(subject_);
    if (!policy) return trace();
    policy->timeout_s = timeout_;
    for (const std::string& lack : sandbox_lacks()) fmt::print("# sandbox: {}\n", lack);
    return run_in_sandbox(*policy, [this] { return trace(); });
  }

 private:
  int trace() {
    CompileOptions options;
    options.widen.force = parse_strategies(strategies_);
    options.threads = set_threads(threads_);
    options.keep_text = true;
    options.verify = true;
    options.passes_off = {passes_off_.begin(), passes_off_.end()};
    check_pass_names(options.passes_off);
    // Recording needs one model only, unless weights or inputs are given for more.
    if (subject_.weights.empty() && subject_.inputs.empty())
      subject_.n = fmt::format("{}", std::max<int64_t>(wide_, 1));
    Subject subject(subject_);
    print_plain(fmt::format("# {}: one model as recorded\n{}", printable(subject_.model),
                            subject.single().text()));
    if (wide_ == 0) return 0;
    if (wide_ > subject.ns().back())
      fail("[--wide] models: got {}, expected at most the {} given; try --wide {}", wide_,
           subject.ns().back(), subject.ns().back());
    const auto model =
        compile(subject.network(), subject.ensemble(wide_), options, subject.single());
    if (steps_)
      for (const PassRecord& pass : model->passes())
        if (!pass.text_after.empty())
          print_plain(
              fmt::format("\n# after {}: {}\n{}", pass.name, pass.summary, pass.text_after));
    print_plain(fmt::format("\n# {} models as they run\n{}", wide_, model->program().text()));
    for (const std::string& line : model->differences())
      print_plain(fmt::format("# {}\n", printable(line, 300)));
    print_passes(*model);
    return 0;
  }

  static void print_passes(const CompiledModel& model) {
    Table passes({"pass", "time", "nodes", "what it did"}, {false, true, true, false});
    for (const PassRecord& p : model.passes())
      passes.add({p.name, time_text(1e6 * p.milliseconds),
                  fmt::format("{} -> {}", p.nodes_before, p.nodes_after), p.summary});
    FuseResult result;
    result.items = model.coverage().items;
    result.coverage = model.coverage().counts();
    result.plan = model.plan_text();
    print_plain(
        fmt::format("\n# passes\n{}\n# coverage\n{}", passes.text(), coverage_text(result)));
  }

  SubjectOptions subject_;
  std::vector<std::string> strategies_, passes_off_;
  int64_t wide_ = 0;
  int threads_ = 0;
  double timeout_ = 0;
  bool steps_ = false;
};

const bool registered =
    add_command<Trace>("trace", "the recorded program, the wide one, and what each pass did");

}  // namespace
}  // namespace wide::trace_command
