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
/// What goes wrong by a caller's mistake is an Error of one line. One call at a time.
namespace wide {

/// One network in its two forms, of the same tensors: names and order of parameters and buffers
/// agree. A form is made anew for each size of the inputs that it is called with, so a form of
/// fixed sizes throws Error for others. Random operators of the training form draw by counter,
/// those of the evaluation form are refused.
struct Forms {
  NetworkSource train, evaluate;
  std::vector<TensorSpec> tensors;  // parameters and buffers, as both forms have them, no inputs
};

/// An input of forward, in its order. Columns are converted to `dtype` row by row; kFloat stands
/// for the weights' dtype.
struct InputForm {
  std::string name;
  at::ScalarType dtype = at::kFloat;
};

/// A tensor for each model, or one for all.
struct StartTensor {
  Tensor tensor;        // [N, ...]; without N where shared
  bool shared = false;  // the same for all models; of frozen tensors alone
};

struct TrainerOptions {
  int64_t n = 0;
  Loss loss;
  std::string optimizer = default_optimizer(DefaultOf::training).name;
  /// By name, one value for each model or a single one for all. Those of the optimiser (`lr`,
  /// `weight_decay`, ...) and the trainer's own: `clip` (largest norm of a model's gradient; 0:
  /// none), `label_smoothing`, `dropout` (every p that the network has; -1: as the network has it),
  /// `ema` (decay of the averaged weights that evaluate and weights() then give; 0: none).
  std::map<std::string, std::vector<double>> hyperparameters;
  Schedule schedule;
  std::set<std::string> no_decay;  // parameters that weight_decay leaves alone
  std::set<std::string> frozen;    // parameters that are not trained
  /// Of the models' random numbers (dropout), [N]; empty: 0, 1, ...
  std::vector<uint64_t> seeds;
  /// One model at a time, every tensor of its own at a multiple of 64 bytes, nothing measured: its
  /// bits hang neither on N nor on its neighbours, their order, or the number of threads.
  bool exact = false;
  int threads = 0;               // 0: as many as LibTorch uses
  int64_t models_at_a_time = 0;  // in a range; 0: measured
  bool tune = true;              // measure strategies and ranges; false: guess
  /// Strategies and ranges as an earlier trainer of the same network chose them (`plan()`).
  std::string plan;
  /// Bytes that activations and gradients of the models that run at once may take; 0: no limit.
  /// Fewer models are taken at a time where it asks for that; where those are still too much, what
  /// their gradients read is computed a second time, with the same bits. What cannot be met is
  /// exceeded, by as little as possible.
  int64_t memory_limit = 0;
  /// Where models, their data and all work of a step are: the CPU, or a device that is available
  /// (engine/device.h). There all running models are computed at once, by each layer's first
  /// strategy, so that `exact`, `models_at_a_time` and `memory_limit` are refused.
  c10::Device device = c10::kCPU;
};

/// One input, target or weight of a batch. Tensors lie on the CPU.
struct Column {
  /// [N, B, ...]; [B, ...] where `shared`. With `rows` it is what they are taken from: [N, S, ...]
  /// or [S, ...]. N counts all models, also those that were stopped.
  Tensor values = {};
  bool shared = false;  // `values` has no N
  /// int64 [N, B], or [B] for all models; undefined: `values` is the batch. Taken inside each
  /// range, so that nothing of the size of N batches is made.
  Tensor rows = {};
  /// Called on one model's rows once they are taken and converted, [B, ...] contiguous, to be
  /// changed in place (normalisation, augmentation); model -1 where one batch is for all models.
  /// Comes from several threads at once, and several times for a batch of a size that is new.
  std::function<void(int64_t model, const Tensor& rows)> prepare = {};
};

struct Batch {
  std::vector<Column> inputs;  // of forward, in its order
  Column target = {};          // undefined values where the loss needs none
  Column weight = {};          // of the rows, [N, B] or [B]; undefined values: 1 each
};

struct StepResult {
  Tensor losses;  // float64 [N], before the step; NaN for models that do not run
  /// Bool [N]: loss, gradient, or what the step would have led to was not finite. Nothing of that
  /// model was written in this step: it is in its last finite state.
  Tensor suppressed;
};

/// What a resume needs besides the options: with it a new trainer gives the same bits as this one.
struct TrainerState {
  /// "weight.NAME" for parameters and buffers, "state.NAME.MOMENT", "ema.NAME": [N, ...], shared
  /// ones without N; "hyper.NAME" float64 [N], "steps" and "seeds" int64 [N], "running" bool [N].
  std::map<std::string, Tensor> tensors;
  int64_t step = 0;  // steps made
  std::string plan;  // strategies, ranges, threads
};

struct TrainerMemory {
  int64_t state_bytes = 0;  // parameters, buffers, moments of all models
  int64_t range_bytes = 0;  // activations and gradients of the models that one thread has at a time
  int64_t models_at_a_time = 0;
  int threads = 0;
  int64_t recomputed = 0;   // calls of a range's step made a second time, so that less is kept
  int64_t saved_bytes = 0;  // of a range, by that
  int64_t total() const { return state_bytes + range_bytes * threads; }
};

/// A step compared with separate models in float64, from the same state (parameters whose gradient
/// is zero but for rounding make trajectories differ, so that those are not compared).
struct StepCheck {
  /// A difference that is no error: it is gone where the weights are a little different.
  struct Vanished {
    int64_t model = 0;
    std::string tensor;     // the gradient that is furthest off
    double loss_error = 0;  // as below
    double gradient_error = 0;
    std::string why;  // in words
  };
  int64_t models = 0;         // that were looked at
  double loss_error = 0;      // relative; of differences that count, as the next
  double gradient_error = 0;  // of each model's largest absolute gradient
  double tolerance = 0;
  bool pass = false;
  std::string failure;  // in words, where it did not
  std::vector<Vanished> vanished;
};

class OnDevice;

class Trainer {
 public:
  /// `start` by the names of the network's parameters and buffers. Throws Error: a tensor that
  /// lacks, has other sizes or no N; an unknown loss, optimiser, hyperparameter or frozen name; a
  /// value out of its range; two counts of models that disagree.
  Trainer(Forms forms, std::vector<InputForm> inputs, std::map<std::string, StartTensor> start,
          TrainerOptions options);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  /// Records and plans what a step on such a batch takes, as the first one does otherwise: throws
  /// what that throws, and leaves the models as they are.
  void prepare(const Batch& batch);
  /// One step of all models that run; a parameter that the loss does not hang on is left as it is,
  /// as torch.optim leaves one without gradient. The first call with a batch of new sizes records
  /// and plans.
  /// Throws Error: sizes, dtypes, an operator that cannot be trained. A step that throws after the
  /// first recording leaves models half written: the run has to go on from its file.
  StepResult step(const Batch& batch);
  /// The gradients that a step would take, before clipping: by trained parameter, [R, ...] for the
  /// R models of `running()`, zeros where the loss does not depend on it; nothing is written.
  /// `losses`: float64 [R].
  std::map<std::string, Tensor> gradients(const Batch& batch, Tensor* losses = nullptr);
  /// Outputs of the evaluation form, flattened, each [R, ...] for the R models of `running()` in
  /// their order, with the weights as they are (the averaged ones where `ema` is set).
  /// `batch.target` and `.weight` are not looked at.
  Tensors evaluate(const Batch& batch);
  /// Gradients and losses of `models` running models against float64, one at a time. Steps that
  /// differ are computed again with other weights; models, seeds and counts are left as they were.
  StepCheck check(const Batch& batch, int64_t models = 3);

  int64_t n() const;
  int64_t steps() const;                        // made so far
  const std::vector<int64_t>& running() const;  // models, ascending
  /// A model's value of a hyperparameter, of the optimiser or the trainer's own.
  double hyperparameter(const std::string& name, int64_t model) const;
  /// From the next step on; nothing is recorded again.
  void set_hyperparameter(const std::string& name, int64_t model, double value);
  /// Takes a model out: it keeps its weights and costs nothing from here on. Once is enough.
  void stop(int64_t model);
  /// Gives `to` the weights, buffers, moments and step count of `from`; its seed and
  /// hyperparameters stay its own.
  void copy(int64_t from, int64_t to);

  /// Parameters and buffers by name, `[N, ...]` in the models' order, shared ones without N:
  /// copies.
  std::map<std::string, Tensor> weights() const;
  /// Model i's own, copies.
  std::map<std::string, Tensor> weights(int64_t model) const;
  /// Whether all models have one copy of this parameter or buffer. Throws Error for another name.
  bool shared(const std::string& name) const;
  /// Gives all N models these weights, named and shaped as `weights()` returns them, in place of
  /// their own and of their averages; all models run from here on. Moments and step counts stay.
  /// Throws Error, and changes nothing, where a name is missing or unknown or sizes differ.
  void set_weights(const std::map<std::string, Tensor>& weights);
  TrainerState state() const;
  /// Throws Error where names or sizes are not those of this trainer.
  void load_state(const TrainerState& state);
  /// Strategies, ranges and threads as text: `TrainerOptions::plan` of a later trainer.
  std::string plan() const;
  /// `range_bytes` is that of the largest step planned so far; 0 before the first.
  TrainerMemory memory() const;
  /// How often something was recorded: constant over steps with batches of known sizes.
  int64_t recordings() const;
  /// Names of the parameters that are trained.
  std::vector<std::string> trained() const;

 private:
  /// Calls `change` on the models where they are told apart and copied.
  void change(const std::function<void()>& change);

  friend class OnDevice;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<OnDevice> on_device_;  // null on the CPU
};

/// What a trainer is made from where models are C++ code.
struct ModelsToTrain {
  Forms forms;
  std::map<std::string, StartTensor> start;
};
/// `train` and `evaluate`: what the first of `models` is in either form; all have its tensors.
ModelsToTrain models_to_train(const Module& train, const Module& evaluate,
                              const std::vector<Module>& models);

/// N models (engine/model/module.h says what a model can be), each starting from its own weights.
/// One with `train(bool)`, as torch::nn::Module has it, is switched between its two forms.
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
