#include "engine/compile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/lower/lowered_model.h"
#include "engine/lower/plain_memory.h"
#include "engine/lower/ranges.h"
#include "engine/lower/tuned_widening.h"

namespace wide {

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::eager:
      return "eager";
    case Mode::default_:
      return "default";
    case Mode::reduce_overhead:
      return "reduce-overhead";
    case Mode::max_autotune:
      return "max-autotune";
  }
  return "?";
}

Mode parse_mode(const std::string& name) {
  for (Mode m : {Mode::eager, Mode::default_, Mode::reduce_overhead, Mode::max_autotune})
    if (name == to_string(m)) return m;
  fail("[--mode] name: got {}, expected eager, default, reduce-overhead or max-autotune; try eager",
       name);
}

std::optional<std::string> unsupported(Mode mode, c10::Device device) {
  if (auto reason = unavailable(device)) return reason;
  if (mode == Mode::eager) return std::nullopt;
  if (mode == Mode::reduce_overhead)
    return device.is_cuda()
               ? std::nullopt
               : std::optional(reason("mode", "reduce-overhead", "the CPU",
                                      "a CUDA device, whose graphs it captures", "--mode eager"));
  return reason("mode", to_string(mode), "no generated kernels",
                "a lowering that compiles, which this version does not have", "--mode eager");
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

TunerOptions tuner_options(const CompileOptions& options, const Network& network,
                           const Ensemble& ensemble) {
  const bool measure = options.tune && ensemble.device().is_cpu();
  return {/*serial=*/false, options.threads, ensemble.n, measure, network.derivative != nullptr};
}

RangeOptions range_options(const CompileOptions& options) {
  return {options.threads, options.ranges, pass_is_on("ranges", options.passes_off), options.tune,
          options.far_off_ns};
}

ExecutorOptions executor_options(const CompileOptions& options, int ranges) {
  ExecutorOptions executor;
  executor.threads = options.threads;
  executor.ranges = ranges;
  executor.plan.arena = pass_is_on("memory-plan", options.passes_off);
  executor.plan.kernels = pass_is_on("kernels", options.passes_off);
  return executor;
}

std::shared_ptr<const RangeProgram> after_passes(WideProgram wide, const CompileOptions& options) {
  std::vector<PassRecord> passes =
      run_passes(wide.program, {options.passes_off, options.verify, options.keep_text});
  return std::make_shared<const RangeProgram>(RangeProgram{std::move(wide), std::move(passes)});
}

/// Record, widen, passes, lower, measure. `options.threads` is a number.
std::unique_ptr<CompiledModel> pipeline(const Network& network, const Ensemble& ensemble,
                                        const CompileOptions& options,
                                        std::optional<Program> recorded) {
  const auto single = std::make_shared<const Program>(recorded ? std::move(*recorded)
                                                               : record_single(network, ensemble));
  const auto widening = std::make_shared<TunedWidening>(network, single, widen_options(options),
                                                        tuner_options(options, network, ensemble));
  std::map<int64_t, std::shared_ptr<const RangeProgram>> programs;  // by number of models
  const MakeProgram program = [&](int64_t begin, int64_t n) {
    auto& made = programs[n];
    if (!made) made = after_passes(widening->widen(ensemble.models(begin, n)), options);
    return made;
  };
  const MakeExecutor lower = [&](int ranges) {
    return std::make_unique<Executor>(*single, ensemble, program,
                                      executor_options(options, ranges));
  };
  ResultMemory results;  // what is measured fills it, the first call uses it
  auto fastest = choose_ranges(*single, ensemble, range_options(options), lower, results);
  const auto whole = [widening, options, n = fastest->models_at_a_time()](const Ensemble& all) {
    return after_passes(widening->widen_as_for(n, all), options);
  };
  return std::make_unique<LoweredModel>(Lowered{network, ensemble, options, single, widening,
                                                std::move(fastest), std::move(results), whole});
}

}  // namespace

std::unique_ptr<CompiledModel> compile(const Network& network, const Ensemble& ensemble,
                                       const CompileOptions& options,
                                       std::optional<Program> single) {
  at::NoGradGuard no_grad;
  if (auto why = unsupported(options.mode, ensemble.device())) throw Unsupported(*why);
  check_pass_names(options.passes_off);
  CompileOptions settled = options;
  if (settled.threads <= 0) settled.threads = at::get_num_threads();
  Ensemble contiguous = ensemble;
  for (Tensor& t : contiguous.tensors) t = in_plain_memory(t);
  return pipeline(network, contiguous, settled, std::move(single));
}

}  // namespace wide
