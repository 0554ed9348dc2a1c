#pragma once
#include <map>
#include <set>

#include "engine/check/check.h"
#include "engine/model/module.h"
#include "engine/model/packing.h"

/// The public C++ API: N models of one architecture computed at once.
///
///     std::vector<torch::nn::Linear> models = ...;
///     wide::WideModel wide = wide::compile(models, {torch::randn({16, 64})});
///     torch::Tensor y = wide.run({x})[0];  // x [N, 16, 64] -> y [N, 16, 10]
///
/// What may be called from which thread: compiling, loading, running and destroying are safe on
/// several threads at once, each with WideModels, modules and options of its own. One WideModel is
/// called by one thread at a time, whichever. So is a module or function while models are compiled
/// from it, since it is called then. While anything is recorded anywhere, oneDNN and vmap's
/// fallback are off in the whole process (engine/record/process_switch.h): other threads' results
/// agree to rounding, their times do not count. Measuring (peaks, tuning) needs an otherwise idle
/// machine.
///
/// Callers' mistakes and limits of the machine are std::runtime_errors of one line, with the thing,
/// what it got and what was expected.
namespace wide {

/// How models are compiled. Start from a preset; `Builder` sets options one by one.
struct Options {
  std::optional<Mode> mode = Mode::default_;      // nullopt: reduce-overhead; default on the CPU
  int threads = 0;                                // 0: as many as LibTorch uses
  int ranges = 0;                                 // of models; 0: measured
  bool tune = true;                               // measure what is fastest; false: guess
  double autotune_s = 5;                          // CompileOptions::autotune_s
  std::map<std::string, std::string> strategies;  // primitive to strategy; "*": all
  bool strict = false;                            // a strategy that does not apply is an error
  std::set<std::string> passes_off;               // by name (workbench list passes); "fold", ...
  bool verify = false;                            // the program after every pass
  bool verbose = false;                           // say what was done, through `log`
  bool validate = false;                          // forward programs, against float64
  double rtol = 0;                                // of validate; 0: the dtype's own
  bool share_weights = false;                     // weights equal in all models are stored once
  std::set<std::string> shared_inputs;            // given once, without N, for all models
  std::vector<std::string> input_names;           // empty: the file's own, or x0, x1, ...
  std::optional<at::ScalarType> dtype;            // of weights from files; none: the file's own
  size_t signatures = 8;                          // input sizes kept compiled (LRU)
  bool frozen = true;                             // weights are packed and folded ahead of calls
  std::function<void(const std::string&)> log;    // empty: std::clog

  static Options default_();
  static Options fast();   // reduce-overhead on a CUDA device, default on the CPU; no check
  static Options debug();  // verbose, the program verified after every pass
  static Options safe();   // validated against float64; a wrong program is refused
};

/// `wide::Builder(wide::Options::safe()).threads(2).strategy("conv2d", "grouped")`.
class Builder {
 public:
  Builder() = default;
  explicit Builder(Options options) : options_(std::move(options)) {}
  Builder& mode(Mode mode) { return options_.mode = mode, *this; }
  Builder& quickest() { return options_.mode = std::nullopt, *this; }
  Builder& threads(int threads) { return options_.threads = threads, *this; }
  Builder& ranges(int ranges) { return options_.ranges = ranges, *this; }
  Builder& tune(bool on = true) { return options_.tune = on, *this; }
  /// Throws Error for an unknown primitive or strategy.
  Builder& strategy(const std::string& primitive, const std::string& strategy);
  Builder& without(const std::string& pass);  // throws Error for a name that no pass has
  Builder& verify(bool on = true) { return options_.verify = on, *this; }
  Builder& verbose(bool on = true) { return options_.verbose = on, *this; }
  Builder& validate(double rtol = 0) {
    options_.validate = true;
    return options_.rtol = rtol, *this;
  }
  Builder& share_weights(bool on = true) { return options_.share_weights = on, *this; }
  Builder& shared_input(const std::string& name) {
    return options_.shared_inputs.insert(name), *this;
  }
  Builder& input_names(std::vector<std::string> names) {
    return options_.input_names = std::move(names), *this;
  }
  Builder& dtype(at::ScalarType dtype) { return options_.dtype = dtype, *this; }
  Builder& signatures(size_t most) { return options_.signatures = most, *this; }
  Builder& frozen(bool on) { return options_.frozen = on, *this; }
  Builder& log(std::function<void(const std::string&)> log) {
    return options_.log = std::move(log), *this;
  }
  const Options& options() const { return options_; }
  operator Options() const { return options_; }

 private:
  Options options_;
};

struct PrimitiveOptions;
class GradientModel;  // engine/lower/gradient_model.h

/// A call that may be differentiated.
struct Differentiable {
  Tensors outputs;
  std::vector<std::pair<size_t, Tensor>> changed;  // as in `WideModel::run`
  std::vector<size_t> attached;              // weights whose new values have a gradient history
  std::shared_ptr<GradientModel> gradients;  // null: nothing is saved
  Tensors saved;                             // for its `backward`
  std::vector<bool> differentiable;          // by output: has a gradient history; empty: all have
  std::vector<size_t> places;  // by input, then by weight: index among the bound tensors
  Tensors weights;             // that the call used
  std::string refusal;         // why gradients failed, or ""
  bool repeatable = false;     // another pass on the same tensors computes the same
};

/// N models with their weights, compiled for the inputs' sizes, again for each new signature. One
/// call at a time, from any thread.
class WideModel {
 public:
  WideModel(WideModel&&) noexcept;
  WideModel& operator=(WideModel&&) noexcept;
  ~WideModel();

  int64_t n() const;
  /// `Options::input_names`, or the file's; empty if they are x0, x1, ...
  const std::vector<std::string>& input_names() const;
  std::vector<std::string> weight_names() const;

  /// Inputs `[N, ...]` in the models' order, shared ones without N; outputs `[N, ...]`. Changes of
  /// buffers are kept, as in separate models; inputs are not changed. A result's memory is reused
  /// only after the caller has released it.
  Tensors run(const Tensors& inputs);
  Tensors operator()(const Tensors& inputs) { return run(inputs); }
  /// Runs with the caller's weights, in the order of `weight_names()`, `[N, ...]` or shared as
  /// before; none: those of the last call. Without `Options::frozen` every call reads them anew;
  /// with it only compiling for a new size does. `changed`: the weights that the call replaced,
  /// with new values.
  Tensors run(const Tensors& inputs, const Tensors& weights,
              std::vector<std::pair<size_t, Tensor>>* changed = nullptr);

  /// `run` for a call that may be differentiated. `of`: by input, then by weight, whether it needs
  /// a gradient; missing entries do not. Without `at_once`, values for the gradients are computed
  /// only when `gradients` are requested, by another forward pass on the same tensors, unless that
  /// would draw or read other numbers.
  /// `outputs`: by output, whether it is expected to have a cotangent; empty: all. For calls
  /// that cannot be repeated, every output may have one.
  Differentiable run_for_gradients(const Tensors& inputs, const Tensors& weights,
                                   const std::vector<bool>& of, const std::vector<bool>& outputs,
                                   bool at_once);
  /// Compiles the gradients of such calls. Throws Error where an operator has none, and
  /// on other devices than the CPU.
  std::shared_ptr<GradientModel> gradients(const Tensors& inputs, const std::vector<bool>& of,
                                           const std::vector<bool>& outputs);

  /// Whether the forward pass of the last call reads this weight.
  bool reads(size_t weight) const;

  /// Compiles for inputs of these sizes, as the first such call would, without running.
  void prepare(const Tensors& inputs);

  /// All weights by name, `[N, ...]`, shared ones without N; as they are after the last call.
  std::map<std::string, Tensor> state() const;
  /// Copies of model i's weights, by the names in its state_dict.
  std::map<std::string, Tensor> state(int64_t i) const;
  /// Sets the named weights, in the form of `state()`; folds and packs again.
  void set_weights(const std::map<std::string, Tensor>& weights);
  /// Sets weights of model i, in the form of `state(i)`. Refuses weights that models share.
  void set_weights(int64_t i, const std::map<std::string, Tensor>& weights);

  /// The coverage of the program that the last call, or else the sample, used.
  const Coverage& coverage() const;
  const Program& program() const;  // Program(N) after the passes
  const std::vector<PassRecord>& passes() const;
  std::string plan() const;               // the lowering plan as text, then those with gradients
  int64_t bytes() const;                  // packed weights and working memory
  std::vector<StepCost> explain() const;  // every step with its time
  size_t signatures() const;              // number of input sizes compiled now

  /// What is kept compiled for all input sizes.
  struct Kept {
    int64_t programs = 0;  // forward passes, and gradients
    int64_t bytes = 0;     // weights as packed, and working memory
    int64_t compiled = 0;  // programs compiled so far, dropped ones included
  };
  Kept kept() const;

  /// Against N separate models in float64 on inputs like the sample: values to `rtol` (0: the
  /// dtype's own tolerance), isolation, order. Weights are as before afterwards.
  Correctness validate(double rtol = 0);

  /// What the last call's program was compiled from, for comparison with separate models: the
  /// network, Program(1), and all current tensors.
  struct Parts {
    Network network;
    Program single;
    Ensemble ensemble;
    CompileOptions options;
  };
  Parts parts() const;

  /// Writes the program with its weights, in ATen operators alone: `.pt2` for torch.export.load,
  /// `.ts` for torch.jit.load.
  void export_to(const std::string& path) const;

  /// Makes the network for inputs of known sizes; its weights do not depend on them.
  using Source = std::function<Network(const std::vector<TensorSpec>& inputs)>;
  /// `specs` and `weights`: the network's tensors that are no inputs, in order, and their values
  /// `[N, ...]` (without N if `shared`). `sample`: one model's inputs; empty: compiled at the first
  /// call.
  WideModel(Source source, std::vector<TensorSpec> specs, Tensors weights, std::vector<bool> shared,
            int64_t n, const Tensors& sample, Options options);

 private:
  friend WideModel compile(const std::vector<Module>& models, const Tensors& sample,
                           const Options& options);
  friend WideModel from_modules(const std::string& primitive, const std::vector<Module>& modules,
                                const PrimitiveOptions& options);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A source that runs the code of `module` with other tensors instead of its own. `specs`: its
/// defined tensors, each once, in order.
WideModel::Source source_of(const Module& module, std::vector<TensorSpec>* specs);

/// Called by the templates below. All modules are of one architecture: the first is compiled, and
/// with a sample the last is compared with it.
WideModel compile(const std::vector<Module>& models, const Tensors& sample,
                  const Options& options = {});
WideModel compile(const Module& model, int64_t n, const Tensors& sample,
                  const Options& options = {});

/// N models, each with its own weights (engine/model/module.h says what a model can be), for inputs
/// like `sample`, those of one model.
template <class M>
WideModel compile(const std::vector<M>& models, const Tensors& sample,
                  const Options& options = {}) {
  std::vector<Module> modules;
  for (const M& model : models) modules.push_back(as_module(model));
  return compile(modules, sample, options);
}

/// N copies of one model, for weights set later or for random masks.
template <class M>
WideModel compile(const M& model, int64_t n, const Tensors& sample, const Options& options = {}) {
  return compile(as_module(model), n, sample, options);
}

/// One primitive alone, as `workbench list primitives` names it, with a chosen strategy.
struct PrimitiveOptions {
  std::string strategy = "";  // "": the engine chooses
  Options options = {};
};
WideModel from_modules(const std::string& primitive, const std::vector<Module>& modules,
                       const PrimitiveOptions& options = {});

/// N modules that each are one primitive, compiled at the first call. That call throws
/// Error if their operators are not that primitive, or the strategy does not apply.
template <class M>
WideModel from_modules(const std::string& primitive, const std::vector<M>& models,
                       const PrimitiveOptions& options = {}) {
  std::vector<Module> modules;
  for (const M& model : models) modules.push_back(as_module(model));
  return from_modules(primitive, modules, options);
}

}  // namespace wide
