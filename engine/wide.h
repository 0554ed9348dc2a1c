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
/// agree to rounding, their times do not count. Measuring (peaks, tuning) wants the machine to
/// itself.
///
/// What goes wrong by a caller's mistake or a limit of the machine is a std::runtime_error of one
/// line that names the thing, what was got and what was expected.
namespace wide {

/// How models are compiled. Start from a preset; `Builder` sets one thing after the other.
struct Options {
  std::optional<Mode> mode = Mode::default_;      // nullopt: the quickest that starts at once
  int threads = 0;                                // 0: as many as LibTorch uses
  int ranges = 0;                                 // of models; 0: measured
  bool tune = true;                               // measure what is fastest; false: guess
  double autotune_s = 5;                          // CompileOptions::autotune_s
  std::map<std::string, std::string> strategies;  // primitive to strategy; "*": all
  bool strict = false;                            // a strategy that does not apply is an error
  std::set<std::string> passes_off;               // by name (workbench list passes); "fold", ...
  bool verify = false;                            // the program after every pass
  bool verbose = false;                           // say what was done, through `log`
  bool validate = false;                          // against float64 after compiling
  double rtol = 0;                                // of that; 0: the dtype's own
  bool share_weights = false;                     // what all models have equal is computed once
  std::set<std::string> shared_inputs;            // given once, without N, for all models
  std::vector<std::string> input_names;           // empty: the file's own, or x0, x1, ...
  std::optional<at::ScalarType> dtype;            // of weights from files; none: the file's own
  size_t signatures = 8;                          // input sizes kept compiled, the oldest goes
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
  Builder& mode(Mode mode);
  Builder& quickest();
  Builder& threads(int threads);
  Builder& ranges(int ranges);
  Builder& tune(bool on = true);
  Builder& strategy(const std::string& primitive, const std::string& strategy);
  Builder& without(const std::string& pass);  // throws Error for a name that no pass has
  Builder& verify(bool on = true);
  Builder& verbose(bool on = true);
  Builder& validate(double rtol = 0);
  Builder& share_weights(bool on = true);
  Builder& shared_input(const std::string& name);
  Builder& input_names(std::vector<std::string> names);
  Builder& dtype(at::ScalarType dtype);
  Builder& signatures(size_t most);
  Builder& frozen(bool on);
  Builder& log(std::function<void(const std::string&)> log);
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
  std::vector<std::pair<size_t, Tensor>> changed;  // as `WideModel::run` says
  std::shared_ptr<GradientModel> gradients;        // null: nothing was saved
  Tensor saved;                                    // for its `backward`
  std::vector<size_t> places;  // by input, then by weight: where its bound tensors have it
  Tensors weights;             // that the call read
  std::string refusal;         // why there are no gradients, "" where they were not asked for yet
};

/// N models with their weights, compiled for the sizes of the inputs that they are called with: for
/// each new signature once more. One call at a time, from any thread.
class WideModel {
 public:
  WideModel(WideModel&&) noexcept;
  WideModel& operator=(WideModel&&) noexcept;
  ~WideModel();

  int64_t n() const;
  const std::vector<std::string>& input_names() const;
  std::vector<std::string> weight_names() const;

  /// Inputs `[N, ...]` in the models' order, shared ones without N; outputs `[N, ...]`. Buffers
  /// that a call changes are kept, as separate models keep theirs; inputs are left as they are.
  /// A result's memory is used again only after the caller has let go of it.
  Tensors run(const Tensors& inputs);
  Tensors operator()(const Tensors& inputs) { return run(inputs); }
  /// The same on weights that live elsewhere, in the order of `weight_names()`, `[N, ...]` or
  /// shared as before; none: those of the last call. Where `Options::frozen` is off nothing is kept
  /// of them: whoever wrote to them, by whatever way, finds it in the next call. Frozen, they count
  /// only when a new size is compiled. `changed`: which weights the call replaced, and by what.
  Tensors run(const Tensors& inputs, const Tensors& weights,
              std::vector<std::pair<size_t, Tensor>>* changed = nullptr);

  /// `run` for a call that may be differentiated. `of`: by input, then by weight, whether gradients
  /// are for it; what is left out at the end is not. Not `at_once`: what gradients need is computed
  /// when `gradients` are asked for, by another forward pass on the same tensors, so that who never
  /// asks pays nothing; it is at once all the same where another pass would draw or read other
  /// numbers.
  Differentiable run_for_gradients(const Tensors& inputs, const Tensors& weights,
                                   const std::vector<bool>& of, bool at_once);
  /// Compiles the gradients of such calls. Throws Error where an operator has none.
  std::shared_ptr<GradientModel> gradients(const Tensors& inputs, const std::vector<bool>& of);

  /// Compiles for inputs of these sizes, as the first such call would; runs nothing.
  void prepare(const Tensors& inputs);

  /// All weights by name, `[N, ...]`, shared ones without N; as they are after the last call.
  std::map<std::string, Tensor> state() const;
  /// Model i's own, copies, under the names that its state_dict has.
  std::map<std::string, Tensor> state(int64_t i) const;
  /// New weights for the names given, as `state()` gives them; folding and packing run again.
  void set_weights(const std::map<std::string, Tensor>& weights);
  /// New weights of model i, as `state(i)` gives them. Refuses weights that models share.
  void set_weights(int64_t i, const std::map<std::string, Tensor>& weights);

  /// Of the program that the last call used, or the sample.
  const Coverage& coverage() const;
  const Program& program() const;  // Program(N) after the passes
  const std::vector<PassRecord>& passes() const;
  std::string plan() const;               // the lowering in words
  int64_t bytes() const;                  // weights as packed, and working memory
  std::vector<StepCost> explain() const;  // every step with its time
  size_t signatures() const;              // input sizes that are compiled now

  /// What is kept of all input sizes.
  struct Kept {
    int64_t programs = 0;  // forward passes, and gradients
    int64_t bytes = 0;     // weights as packed, and working memory
    int64_t compiled = 0;  // so many programs so far, those included that are kept no more
  };
  Kept kept() const;

  /// Against N separate models in float64 on inputs like the sample: values to `rtol` (0: the
  /// dtype's own tolerance), isolation, order. Weights are as before afterwards.
  Correctness validate(double rtol = 0);

  /// What the last call's program was compiled from, for those who hold it against the separate
  /// models: the network, Program(1), and all tensors as they are.
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

  /// How a network comes to be once its inputs' sizes are known; its weights do not depend on them.
  using Source = std::function<Network(const std::vector<TensorSpec>& inputs)>;
  /// `weights`: of the network's tensors that are no inputs, in order, with their values `[N, ...]`
  /// (or without N where `shared`). `sample`: one model's inputs; empty: compiled at the first
  /// call.
  WideModel(Source source, std::vector<TensorSpec> specs, Tensors weights, std::vector<bool> shared,
            int64_t n, const Tensors& sample, Options options);

 private:
  friend WideModel from_modules(const std::string& primitive, const std::vector<Module>& modules,
                                const PrimitiveOptions& options);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What `compile` makes a model of: code of `module` with other tensors in the place of its own.
/// `specs`: of its tensors that are defined, each once, in order.
WideModel::Source source_of(const Module& module, std::vector<TensorSpec>* specs);

/// What the templates below end in. All modules are of one architecture; the first is recorded.
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

/// N copies of one model, to be given weights of their own, or to draw masks of their own.
template <class M>
WideModel compile(const M& model, int64_t n, const Tensors& sample, const Options& options = {}) {
  return compile(as_module(model), n, sample, options);
}

/// One primitive alone, as `workbench list primitives` names it, by the strategy asked for.
struct PrimitiveOptions {
  std::string strategy = "";  // "": the engine chooses
  Options options = {};
};
WideModel from_modules(const std::string& primitive, const std::vector<Module>& modules,
                       const PrimitiveOptions& options = {});

/// N modules that are one primitive each, compiled at the first call. Throws where their operators
/// are not that primitive, or the strategy does not apply.
template <class M>
WideModel from_modules(const std::string& primitive, const std::vector<M>& models,
                       const PrimitiveOptions& options = {}) {
  std::vector<Module> modules;
  for (const M& model : models) modules.push_back(as_module(model));
  return from_modules(primitive, modules, options);
}

}  // namespace wide
