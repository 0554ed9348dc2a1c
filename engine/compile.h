#pragma once
#include <memory>
#include <optional>
#include <set>

#include "engine/lower/tune/tuning.h"
#include "engine/measure/timeline.h"
#include "engine/network.h"
#include "engine/passes/pass.h"
#include "engine/widen/widen.h"

namespace wide {

/// Execution modes under the names of torch.compile:
/// eager            operator by operator through LibTorch, the program that an export writes:
///                  strategies of ATen operators alone; no passes but those that clean up
/// default          planned ahead of its calls, with kernels that were compiled with this project
/// reduce-overhead  as default, captured as one CUDA graph
/// max-autotune     as default, after measuring whole programs with every strategy; remembered
enum class Mode { eager, default_, reduce_overhead, max_autotune };
inline constexpr Mode kModes[] = {Mode::eager, Mode::default_, Mode::reduce_overhead,
                                  Mode::max_autotune};
const char* to_string(Mode mode);
/// Throws Error for an unknown name.
Mode parse_mode(const std::string& name);

struct CompileOptions {
  Mode mode = Mode::default_;
  int threads = 0;  // 0: as many as at::get_num_threads()
  int ranges = 0;   // of models; 0: measured
  WidenOptions widen;
  std::set<std::string> passes_off;  // by name, of any stage
  bool verify = false;               // verify the program after every pass
  bool keep_text = false;
  bool tune = true;  // measure strategies, layouts and the number of ranges; false: guess
  std::shared_ptr<const SizeChoices> like = {};  // measured at another size: taken as they are
  double autotune_s = 5;  // mode max-autotune: seconds of measuring beyond what mode default does
  /// A strategy whose call takes longer than this is not tried at every number of ranges, only with
  /// all models at once and with one at a time; 0: all are.
  double far_off_ns = 0;
};

/// One line of `--explain`: a step of the wide program and what it costs.
struct StepCost {
  std::string op, module, primitive, strategy, shape;
  double median_ns = 0;
  double share = 0;           // of the sum over all steps
  int32_t node = -1;          // where it comes from in the program of one model
  double flops = 0;           // by the definition
  double computed_flops = 0;  // what its kernel computes, where it says so; else 0
  double bytes = 0;           // read and written
};

/// A compiled wide program with its weights. Not thread-safe: one call at a time.
class CompiledModel {
 public:
  virtual ~CompiledModel() = default;
  /// Inputs in the order of the network's inputs, `[N, ...]` (shared ones without N). Returns
  /// the outputs, then the buffer updates, all `[N, ...]`. A result's memory is used again only
  /// after the caller has let go of it.
  virtual Tensors run(const Tensors& inputs) = 0;
  /// New weights (all non-input tensors in the network's order); folding and packing run again.
  virtual void set_weights(const Tensors& weights) = 0;

  virtual const Program& single() const = 0;  // Program(1) as recorded
  /// Program(N) after the passes, every call by the strategy that runs, where that applies to all
  /// N at once; `differences` has those where it does not.
  virtual const Program& program() const = 0;
  virtual std::vector<std::string> differences() const { return {}; }
  virtual const Coverage& coverage() const = 0;
  /// What the passes did to the program of a range of models, which is what runs; to Program(N)
  /// where their texts are kept.
  virtual const std::vector<PassRecord>& passes() const = 0;
  virtual std::vector<StepCost> explain(const Tensors& inputs) = 0;
  /// One call, step by step, on the threads that run it.
  virtual TimelineCall timeline(const Tensors& /*inputs*/) { return {}; }
  virtual int ranges() const = 0;
  virtual std::string plan_text() const = 0;   // the lowering in words: ranges, layouts, arena
  virtual int64_t bytes() const = 0;           // weights as packed, plus arenas
  virtual int64_t steps() const { return 0; }  // operator calls of one call, over all ranges
  /// What the kernels of one call compute, where any computes other than the definition; else 0.
  virtual double computed_flops() const { return 0; }
  /// What was chosen, for compiling another size of the inputs alike.
  virtual std::shared_ptr<const SizeChoices> size_choices() const { return nullptr; }
};

/// Records, widens, optimises and lowers `network` for `ensemble.n` models, by what measures
/// fastest; whether it is right, `check` says (engine/check/check.h). `single`: the network's
/// Program(1) where it was recorded before; its bound values have the roles of `network.tensors`.
/// Throws Error: unsupported mode or device, unknown pass, does not fit, data-dependent operators.
std::unique_ptr<CompiledModel> compile(const Network& network, const Ensemble& ensemble,
                                       const CompileOptions& options = {},
                                       std::optional<Program> single = std::nullopt);

/// What `compile` would make of a network's calls.
struct StrategyChoice {
  Coverage coverage;
  /// What the strategies of `primitive` were looked up by, one for each kind of call of it: where
  /// somebody who has timed whole networks stores what won.
  std::vector<TuningKey> keys;
};

/// Chooses strategies as `compile` does, with `options.ranges` ranges of models, and makes no
/// program that could run: weights are not packed and ranges are not compared. In mode
/// max-autotune, which compares whole programs, they are made. Throws Error as `compile` does.
StrategyChoice choose_strategies(const Network& network, const Ensemble& ensemble,
                                 const CompileOptions& options, Program single,
                                 const std::string& primitive);

class GradientModel;

/// The same for calls that are differentiated: the forward pass and the gradients of `of`, by
/// index, as two programs that one measuring has chosen. Every tensor comes in with a call.
/// `single`: recorded for being differentiated. Throws Error for operators without a gradient.
std::unique_ptr<GradientModel> compile_gradients(const Network& network, const Ensemble& ensemble,
                                                 const std::vector<size_t>& of, Program single,
                                                 const CompileOptions& options);

/// Records Program(1) of `network` on model 0 of `ensemble`; with `grad` for being differentiated:
/// where the network turns grad mode off no gradient will flow back.
Program record_single(const Network& network, const Ensemble& ensemble, bool grad = false);

/// The mode's reason for being unsupported on `device`, or nullopt.
std::optional<std::string> unsupported(Mode mode, c10::Device device);

/// What runs where `mode` is asked for on `device`: on the CPU, default in place of
/// reduce-overhead, which only saves launches of CUDA kernels. `note`: filled where they differ.
Mode mode_on(c10::Device device, Mode mode, std::string* note = nullptr);

}  // namespace wide
