#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/model/module_source.h"
#include "engine/train/loss.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/train/optimizer/schedule.h"

/// N models of one architecture trained as one program, each with its own weights, data,
/// hyperparameters and random numbers.
///
///     wide::Trainer trainer(forms, inputs, start, options);
///     for (...) {
///       wide::StepResult result = trainer.step(batch);   // losses [N]
///     }
///     std::map<std::string, at::Tensor> weights = trainer.weights();  // [N, ...]
///
/// Callers' mistakes are Errors of one line. One call at a time.
namespace wide {

/// One network in its two forms, with the same parameters and buffers in the same order. A form
/// makes a network for each size of inputs; one of fixed sizes throws Error for others. Random
/// operators of the training form draw by counter; those of the evaluation form are refused.
struct Forms {
  NetworkSource train, evaluate;
  std::vector<TensorSpec> tensors;  // parameters and buffers of both forms, no inputs
};

/// An input of forward, in its order. Columns are converted to `dtype` row by row; nullopt means
/// the weights' dtype.
struct InputForm {
  std::string name;
  std::optional<at::ScalarType> dtype = {};
};

/// A tensor for each model, or one for all.
struct StartTensor {
  Tensor tensor;        // [N, ...]; without N if shared
  bool shared = false;  // the same for all models; only for frozen tensors
};

struct TrainerOptions {
  int64_t n = 0;
  Loss loss;
  std::string optimizer = default_optimizer(DefaultOf::training).name;
  /// By name, one value for each model or one for all: those of the optimiser (`lr`,
  /// `weight_decay`, ...) and of the trainer: `clip` (largest norm of a model's gradient; 0: none),
  /// `label_smoothing`, `dropout` (replaces every p of the network; -1: keeps them), `ema` (decay
  /// of averaged weights, which evaluate and weights() then use; 0: none).
  std::map<std::string, std::vector<double>> hyperparameters;
  Schedule schedule;
  std::set<std::string> no_decay;  // parameters without weight_decay
  std::set<std::string> frozen;    // parameters that are not trained
  /// Seeds of the models' random numbers (dropout), [N]; empty: 0, 1, ...
  std::vector<uint64_t> seeds;
  /// Computes one model at a time, with tensors aligned to 64 bytes, and measures nothing: a
  /// model's bits depend neither on N, nor on other models, their order, or the number of threads.
  bool exact = false;
  int threads = 0;               // 0: as many as LibTorch uses
  int64_t models_at_a_time = 0;  // per range; 0: measured
  /// Measure strategies and ranges; false: guess. A `memory_limit` has ranges measured anyway.
  bool tune = true;
  /// Strategies and ranges of an earlier trainer of the same network, from its `plan()`.
  std::string plan;
  /// Limit in bytes for activations and gradients of models that run at the same time; 0: none. To
  /// meet it, fewer models run at a time; if that is not enough, values that gradients read are
  /// recomputed, with the same bits. A limit that cannot be met is exceeded as little as possible.
  int64_t memory_limit = 0;
  /// Device of models, data and steps: the CPU, or an available device (engine/device.h). On a
  /// device all running models are computed at once, by each layer's first strategy; `exact`,
  /// `models_at_a_time`, `memory_limit` and optimisers without `step_tensors` are refused.
  c10::Device device = c10::kCPU;
};

/// Gets one model's rows [B, ...], contiguous and in the data's dtype, which it may change in place
/// (model -1: a shared batch); returns what the network gets, of the same sizes, before it is
/// converted to the network's dtype. Called from several threads, and several times for the first
/// batch of a new size.
using PrepareRows = std::function<Tensor(int64_t model, const Tensor& rows)>;

/// One input, target or weight of a batch. Tensors are on the CPU.
struct Column {
  /// [N, B, ...]; [B, ...] where `shared`. With `rows`: the data from which rows are gathered, [N,
  /// S, ...] or [S, ...]. N counts stopped models too.
  Tensor values = {};
  bool shared = false;  // `values` has no N
  /// int64 [N, B], or [B] for all models; undefined: `values` is the batch. Rows are gathered for
  /// each range, so that no tensor for N batches is made.
  Tensor rows = {};
  /// Changes one model's rows (normalisation, augmentation); undefined: nothing is changed.
  PrepareRows prepare = {};
};

struct Batch {
  std::vector<Column> inputs;  // of forward, in its order
  Column target = {};          // values undefined if the loss needs none
  Column weight = {};          // of rows, [N, B] or [B]; values undefined: all 1
};

struct StepResult {
  Tensor losses;  // float64 [N], before the step; NaN for stopped models
  /// Bool [N]: the loss, a gradient or a result of the step was not finite. This step changed
  /// nothing of that model: it keeps its last finite state.
  Tensor suppressed;
};

/// What a resume needs besides the options: a new trainer with it gives the same bits.
struct TrainerState {
  /// "weight.NAME" for parameters and buffers, "state.NAME.MOMENT", "ema.NAME": [N, ...], shared
  /// ones without N; "hyper.NAME" float64 [N], "steps" and "seeds" int64 [N], "running" bool [N].
  std::map<std::string, Tensor> tensors;
  int64_t step = 0;  // steps made so far
  std::string plan;  // strategies, ranges, threads
};

struct TrainerMemory {
  int64_t state_bytes = 0;  // parameters, buffers, moments of all models
  int64_t range_bytes = 0;  // activations and gradients of one thread's models
  int64_t models_at_a_time = 0;
  int threads = 0;
  int64_t recomputed = 0;   // calls of a range's step that are recomputed to save memory
  int64_t saved_bytes = 0;  // saved by that, per range
  int64_t total() const { return state_bytes + range_bytes * threads; }
};

/// A step compared with separate models in float64, from the same state (trajectories are not
/// compared, as parameters whose gradient is zero but for rounding make them differ).
struct StepCheck {
  /// A difference that is no error, as it vanishes when the weights move a little.
  struct Vanished {
    int64_t model = 0;
    std::string tensor;     // the gradient with the largest error
    double loss_error = 0;  // as below
    double gradient_error = 0;
    std::string why;  // explanation
  };
  int64_t models = 0;         // number of models checked
  double loss_error = 0;      // relative; only differences that count, like the next
  double gradient_error = 0;  // relative to a model's largest gradient
  double tolerance = 0;
  bool pass = false;
  std::string failure;  // text, if it failed
  std::vector<Vanished> vanished;
};

class OnDevice;

class Trainer {
 public:
  /// `start` by the names of the network's parameters and buffers. Throws Error for a tensor that
  /// is missing, has wrong sizes or no N; an unknown loss, optimiser, hyperparameter or frozen
  /// name; a value out of range; different numbers of models or seeds; nothing to train; a wrong
  /// schedule or plan; an unavailable device (exit code 6).
  Trainer(Forms forms, std::vector<InputForm> inputs, std::map<std::string, StartTensor> start,
          TrainerOptions options);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  /// Records and plans for a step on such a batch, as the first step would: throws the same, and
  /// does not change the models.
  void prepare(const Batch& batch);
  /// One step of all running models. A parameter on which the loss does not depend is not changed,
  /// as torch.optim leaves one without gradient. The first call with new batch sizes records and
  /// plans.
  /// Throws Error for wrong sizes or dtypes, or an operator that cannot be trained. A step that
  /// throws after recording may leave models half written: resume the run from its file.
  StepResult step(const Batch& batch);
  /// The gradients of a step, before clipping: by trained parameter, [R, ...] for the R models of
  /// `running()`, zeros if the loss does not depend on it. Changes nothing. `losses`: float64 [R].
  std::map<std::string, Tensor> gradients(const Batch& batch, Tensor* losses = nullptr);
  /// Outputs of the evaluation form, flattened, each [R, ...] for the R models of `running()` in
  /// their order, with the current weights (the averaged ones if `ema` is set). `batch.target` and
  /// `.weight` are ignored.
  Tensors evaluate(const Batch& batch);
  /// Compares gradients and losses of `models` running models with float64, one at a time. Steps
  /// that differ are repeated with other weights; models, seeds and counts are not changed.
  StepCheck check(const Batch& batch, int64_t models = 3);

  int64_t n() const;
  int64_t steps() const;                        // made so far
  const std::vector<int64_t>& running() const;  // models, ascending
  /// A model's value of a hyperparameter of the optimiser or the trainer.
  double hyperparameter(const std::string& name, int64_t model) const;
  /// Sets a value from the next step on, without recording again, except for the first
  /// label_smoothing. Throws Error for an unknown name, or a value out of range or in conflict.
  void set_hyperparameter(const std::string& name, int64_t model, double value);
  /// Stops a model: it keeps its weights and costs no more time. Stopping it again does nothing.
  void stop(int64_t model);
  /// Gives `to` the weights, buffers, moments and step count of `from`; its seed and
  /// hyperparameters stay.
  void copy(int64_t from, int64_t to);

  /// Copies of parameters and buffers by name, `[N, ...]` in the models' order, shared ones without
  /// N.
  std::map<std::string, Tensor> weights() const;
  /// Copies of one model's parameters and buffers.
  std::map<std::string, Tensor> weights(int64_t model) const;
  /// Whether all models share this parameter or buffer. Throws Error for another name.
  bool shared(const std::string& name) const;
  /// Sets the weights of all N models, and their averages, in the form of `weights()`; all models
  /// run again. Moments and step counts stay. Throws Error, and changes nothing, if a name is
  /// missing or unknown or sizes differ.
  void set_weights(const std::map<std::string, Tensor>& weights);
  TrainerState state() const;
  /// Throws Error if names or sizes are not those of this trainer, which is then not usable.
  void load_state(const TrainerState& state);
  /// Strategies, ranges and threads as text, for `TrainerOptions::plan` of a later trainer.
  std::string plan() const;
  /// `range_bytes` is for the largest step or evaluation so far; 0 before the first.
  TrainerMemory memory() const;
  /// Number of recordings so far: constant over steps with known batch sizes.
  int64_t recordings() const;
  /// Notes for the user, one line each: steps or evaluations that cannot be captured as a graph.
  std::vector<std::string> notes() const;
  /// Names of the parameters that are trained.
  std::vector<std::string> trained() const;

 private:
  /// Calls `change` on the host's models, with the state from the device if there is one.
  void change(const std::function<void()>& change);

  friend class OnDevice;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<OnDevice> on_device_;  // null on the CPU
};

/// A trainer's arguments for models in C++.
struct ModelsToTrain {
  Forms forms;
  std::map<std::string, StartTensor> start;
};
/// `train` and `evaluate`: the first of `models` in both forms; all have the same tensors.
ModelsToTrain models_to_train(const Module& train, const Module& evaluate,
                              const std::vector<Module>& models);

/// N models (engine/model/module.h says what a model can be), each starting from its own weights. A
/// model with `train(bool)`, as in torch::nn::Module, is switched between its two forms.
template <class M>
ModelsToTrain models_to_train(const std::vector<M>& models) {
  std::vector<Module> all;
  for (const M& model : models) all.push_back(as_module(model));
  if (all.empty()) return models_to_train({}, {}, all);
  const auto form = [&](bool train) {
    Module made = all.front();
    made.forward = [model = models.front(), forward = made.forward,
                    train](const Tensors& in) mutable {
      if constexpr (requires { detail::pointee(model).train(train); })
        detail::pointee(model).train(train);
      return forward(in);
    };
    return made;
  };
  return models_to_train(form(true), form(false), all);
}

/// The trainer's own hyperparameters: clip, label_smoothing, dropout, ema.
const std::vector<Hyperparameter>& trainer_hyperparameters();

}  // namespace wide
