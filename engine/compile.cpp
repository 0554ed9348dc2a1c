#include "engine/compile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/lower/gradient_model.h"
#include "engine/lower/lowered_model.h"
#include "engine/lower/memory/plain_memory.h"
#include "engine/lower/plan/ranges.h"
#include "engine/lower/tune/autotune.h"
#include "engine/lower/tune/tuned_widening.h"
#include "engine/widen/aten_only.h"
#include "engine/widen/derivative.h"

namespace wide {

std::optional<std::string> unsupported(Mode mode, c10::Device device) {
  if (auto reason = unavailable(device)) return reason;
  if (mode != Mode::reduce_overhead || device_runtime(device.type())) return std::nullopt;
  return reason("mode", "reduce-overhead", "the CPU", "a CUDA device, whose graphs it captures",
                "--mode default");
}

std::optional<std::string> unsupported(Mode mode, const std::vector<c10::Device>& devices) {
  for (const c10::Device device : devices)
    if (!unsupported(mode, device)) return std::nullopt;
  return unsupported(mode, devices.front());
}

Mode mode_on(c10::Device device, Mode mode, std::string* note) {
  if (mode != Mode::reduce_overhead || !device.is_cpu() || device_runtime(c10::kCPU)) return mode;
  if (note != nullptr)
    *note = "mode reduce-overhead captures CUDA graphs; on the CPU mode default runs instead";
  return Mode::default_;
}

Program record_single(const Network& network, const Ensemble& ensemble, bool grad) {
  const at::AutoGradMode mode(grad);
  const Tensors one = ensemble.model(0);
  std::vector<Binding> bindings;
  for (size_t i = 0; i < one.size(); ++i)
    bindings.push_back(
        {network.tensors[i].name, network.tensors[i].role, one[i].detach().contiguous()});
  return record(bindings, network.forward);
}

namespace {

WidenOptions widen_options(const CompileOptions& options) {
  WidenOptions widen = options.widen;
  widen.fold = widen.fold && pass_is_on("fold", options.passes_off);
  return widen;
}

RangeOptions range_options(const CompileOptions& options, c10::Device device) {
  const bool split = device.is_cpu() && pass_is_on("ranges", options.passes_off);
  return {options.threads, options.ranges, split, options.tune, options.far_off_ns};
}

/// On the CPU results lie in memory that later calls use again, since new pages cost more than a
/// copy.
ExecutorOptions executor_options(const CompileOptions& options, c10::Device device, int ranges) {
  ExecutorOptions executor;
  executor.threads = options.threads;
  executor.ranges = ranges;
  executor.plan.arena = pass_is_on("memory-plan", options.passes_off);
  executor.plan.kernels = pass_is_on("kernels", options.passes_off);
  executor.gives_results = !device.is_cpu();
  return executor;
}

std::shared_ptr<const RangeProgram> after_passes(WideProgram wide, const CompileOptions& options) {
  if (options.mode == Mode::eager) drop_weight_copies(wide.program);
  std::vector<PassRecord> passes =
      run_passes(wide.program, {options.passes_off, options.verify, options.keep_text});
  return std::make_shared<const RangeProgram>(RangeProgram{std::move(wide), std::move(passes)});
}

WideEvaluation evaluation_of(const Network& network) {
  if (!network.derivative) return {};
  return {[derivative = network.derivative](const Program&, int64_t n,
                                            const std::vector<WideValue>& bound,
                                            const WidenOptions& options, Coverage* coverage) {
    return derivative->evaluate(n, bound, options, coverage);
  }};
}

/// Widens, passes, lowers and measures Program(1) of one ensemble. `options.threads` is a number.
class Pipeline {
 public:
  /// `evaluation`: how `single` is made wide; `gradients`: whether that includes gradients.
  Pipeline(const Ensemble& ensemble, const CompileOptions& options,
           std::shared_ptr<const Program> single, WideEvaluation evaluation, bool gradients)
      : ensemble_(ensemble),
        options_(options),
        single_(std::move(single)),
        evaluation_(std::move(evaluation)),
        gradients_(gradients) {}

  /// Compiles the program as a whole.
  std::unique_ptr<CompiledModel> run(const Network& network) {
    Attempt made = chosen();
    const auto taken = choices(made);
    const auto whole = [widening = made.widening, options = options_,
                        n = made.executor->models_at_a_time()](const Ensemble& all) {
      return after_passes(widening->widen_as_for(n, all), options);
    };
    return std::make_unique<LoweredModel>(Lowered{network, ensemble_, options_, single_,
                                                  made.widening, std::move(made.executor),
                                                  std::move(results_), taken, whole});
  }

  /// Compiles forward and backward pass as two programs: the fastest whole program is cut. The
  /// memory allowed a training step is little more than that of separate models or, if that is
  /// more, of ranges of one model.
  std::unique_ptr<GradientModel> run_in_halves(const std::shared_ptr<WithGradients>& what) {
    share_of_memory_ = [this, what, most = int64_t{0}](Executor& executor) mutable {
      const int64_t allocated =
          executor.allocated_bytes(ensemble_.tensors, results_.next(executor));
      const int64_t bytes = GradientModel::step_bytes(*what, executor, options_.threads, allocated);
      if (most == 0) {  // asked first for the shortest ranges
        const auto one = what->step_bytes_of_one(ensemble_.model(0));
        most = one ? kMorePercent * std::max(bytes, one->of(ensemble_.n)) / 100
                   : std::numeric_limits<int64_t>::max();
      }
      return static_cast<double>(bytes) / static_cast<double>(most);
    };
    const Attempt made = chosen();
    auto model = std::make_unique<GradientModel>(
        what, ensemble_, executor_options(options_, ensemble_.device(), made.executor->ranges()),
        [&](int64_t, int64_t n) { return made.executor->program(n); });
    model->choices = choices(made);
    return model;
  }

  StrategyChoice choose(const std::string& primitive) {
    if (options_.mode == Mode::max_autotune) {
      const Attempt made = chosen();
      return {made.executor->program()->wide.coverage, made.widening->keys(primitive)};
    }
    TunedWidening widening(evaluation_, single_, widen_options(options_), tuner_options());
    const int64_t ranges = std::clamp<int64_t>(options_.ranges, 1, ensemble_.n);
    const int64_t at_a_time = (ensemble_.n + ranges - 1) / ranges;
    WideProgram made = widening.widen(ensemble_.models(0, at_a_time));
    return {std::move(made.coverage), widening.keys(primitive)};
  }

 private:
  /// Of the memory that ranges are compared with. A few bytes for each of many small models are no
  /// reason to run them one at a time.
  static constexpr int64_t kMorePercent = 106;

  Attempt chosen() {
    return options_.mode == Mode::max_autotune && !options_.like ? autotuned() : attempt({});
  }

  std::shared_ptr<const SizeChoices> choices(const Attempt& made) const {
    if (options_.like) return options_.like;
    return std::make_shared<const SizeChoices>(SizeChoices{
        made.executor->ranges(), made.widening->by_call(made.executor->models_at_a_time())});
  }

  TunerOptions tuner_options() const {
    return {/*serial=*/false, options_.threads, ensemble_.n, options_.tune, gradients_};
  }

  Attempt attempt(const AttemptOptions& asked) {
    TunerOptions tuner = tuner_options();
    tuner.decided = asked.decided;
    const auto widening =
        std::make_shared<TunedWidening>(evaluation_, single_, widen_options(options_), tuner);
    if (options_.like) widening->take(options_.like->strategies);
    std::map<int64_t, std::shared_ptr<const RangeProgram>> programs;  // by number of models
    const MakeProgram program = [&](int64_t begin, int64_t n) {
      auto& made = programs[n];
      if (!made) made = after_passes(widening->widen(ensemble_.models(begin, n)), options_);
      return made;
    };
    const MakeExecutor lower = [&](int ranges) {
      return std::make_unique<Executor>(*single_, ensemble_, program,
                                        executor_options(options_, ensemble_.device(), ranges));
    };
    RangeOptions ranges = range_options(options_, ensemble_.device());
    if (asked.ranges > 0) ranges.asked = asked.ranges;
    if (options_.like) ranges.asked = options_.like->ranges;
    ranges.every = asked.every_range;
    ranges.share_of_memory = share_of_memory_;
    ranges.in_turns = gradients_;
    // Measuring fills the memory for results, which the first call then uses.
    const CallOf call_of = [&](Executor& executor) {
      return [&, &results = results_.next(executor)] { executor.run(ensemble_.tensors, results); };
    };
    return {widening, choose_ranges(*single_, ensemble_.n, ranges, lower, call_of)};
  }

  Attempt autotuned() {
    AutotuneOptions autotune;
    autotune.budget_s = options_.autotune_s;
    autotune.key = {.scope = "network",
                    .primitive = "ranges",
                    .config = hash_text(single_->text(), options_.widen.force),
                    .device = ensemble_.device().str(),
                    .threads = options_.threads,
                    .n = ensemble_.n};
    return wide::autotune(
        ensemble_, autotune, [this](const AttemptOptions& asked) { return attempt(asked); },
        results_);
  }

  const Ensemble& ensemble_;
  const CompileOptions& options_;
  const std::shared_ptr<const Program> single_;
  const WideEvaluation evaluation_;
  const bool gradients_;
  std::function<double(Executor&)> share_of_memory_;  // RangeOptions
  ResultMemory results_;
};

/// Sets the options that a mode stands for.
CompileOptions of_mode(CompileOptions options) {
  if (options.threads <= 0) options.threads = at::get_num_threads();
  if (options.mode != Mode::eager) return options;
  options.passes_off.merge(passes_beyond_cleaning());
  options.widen.only = aten_alone(/*optimizer_steps=*/true);
  options.tune = false;
  if (!options.widen.choose)
    options.widen.choose = [](const ClaimedCall& call) { return call.applicable.front(); };
  return options;
}

Ensemble in_plain_memory(Ensemble ensemble) {
  for (Tensor& t : ensemble.tensors) t = wide::in_plain_memory(t);
  return ensemble;
}

/// Throws Unsupported if a program of mode eager has operators other than ATen's.
void expect_aten(const CompiledModel& model, const WidenOptions& options) {
  const Program& program = model.program();
  for (const Node& node : program.nodes)
    if (const std::string other = options.only->other(program, node); !other.empty())
      throw Unsupported(
          reason("mode eager", "operator", other, options.only->which, "--mode default"));
}

}  // namespace

std::unique_ptr<CompiledModel> compile(const Network& network, const Ensemble& ensemble,
                                       const CompileOptions& options,
                                       std::optional<Program> single) {
  at::NoGradGuard no_grad;
  if (auto why = unsupported(options.mode, ensemble.device())) throw Unsupported(*why);
  check_pass_names(options.passes_off);
  const CompileOptions settled = of_mode(options);
  const Ensemble contiguous = in_plain_memory(ensemble);
  const auto program = std::make_shared<const Program>(single ? std::move(*single)
                                                              : record_single(network, contiguous));
  auto model =
      Pipeline(contiguous, settled, program, evaluation_of(network), network.derivative != nullptr)
          .run(network);
  if (settled.mode == Mode::eager) expect_aten(*model, settled.widen);
  return model;
}

StrategyChoice choose_strategies(const Network& network, const Ensemble& ensemble,
                                 const CompileOptions& options, Program single,
                                 const std::string& primitive) {
  at::NoGradGuard no_grad;
  const CompileOptions settled = of_mode(options);
  const Ensemble contiguous = in_plain_memory(ensemble);
  return Pipeline(contiguous, settled, std::make_shared<const Program>(std::move(single)),
                  evaluation_of(network), network.derivative != nullptr)
      .choose(primitive);
}

std::unique_ptr<GradientModel> compile_gradients(const Network& network, const Ensemble& ensemble,
                                                 const std::vector<size_t>& of, Program single,
                                                 const CompileOptions& options,
                                                 const std::vector<bool>& outputs) {
  at::NoGradGuard no_grad;
  if (!ensemble.device().is_cpu())
    throw Unsupported(reason(network.name, "gradients", c10::str(ensemble.device()), "the CPU",
                             "models on the CPU"));
  check_pass_names(options.passes_off);
  const CompileOptions settled = of_mode(options);
  for (const ValueId id : single.bound) single.value(id).role = Role::input;
  const auto what = std::make_shared<WithGradients>("backward", std::move(single), of,
                                                    Cotangents::bound, outputs);
  Ensemble all = in_plain_memory(ensemble);
  for (const int64_t at : what->cotangents()) {
    if (at < 0) continue;
    const Value& v = what->form().value(what->form().bound[static_cast<size_t>(at)]);
    all.tensors.push_back(at::ones(wide_sizes(ensemble.n, v.sizes), v.dtype));
    all.shared.push_back(false);
  }
  const auto form = std::make_shared<const Program>(what->form());
  return Pipeline(all, settled, form, evaluation_of(what), /*gradients=*/true).run_in_halves(what);
}

}  // namespace wide
