#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// The state of N models in training: tensors, moments, counters, hyperparameters. Those that run
/// lie side by side in slots [0, R), ascending; those that were stopped behind them.
class TrainedModels {
 public:
  /// Throws Error as Trainer's constructor does.
  TrainedModels(const std::vector<TensorSpec>& specs, std::map<std::string, StartTensor> start,
                const TrainerOptions& options);

  TrainedModels(const TrainedModels&) = delete;
  TrainedModels& operator=(const TrainedModels&) = delete;

  int64_t n() const { return n_; }
  at::ScalarType dtype() const { return dtype_; }
  const std::vector<TensorSpec>& specs() const { return specs_; }
  const std::vector<int64_t>& running() const { return running_; }
  int64_t model_at(int64_t slot) const { return model_at_[static_cast<size_t>(slot)]; }

  /// By specs: `[N, ...]` by slot, or without N where shared. `averaged`: the averaged parameters
  /// where there are any.
  Tensor tensor(size_t k, bool averaged = false) const;
  bool shared(size_t k) const { return kept_[k].shared; }
  /// Specs of what is trained, in order.
  const std::vector<size_t>& trained() const { return trained_; }

  double hyper(const std::string& name, int64_t model) const;
  void set_hyper(const std::string& name, int64_t model, double value);
  bool any(const std::string& name) const;  // whether a model's is not 0
  uint64_t seed(int64_t model) const { return seeds_[static_cast<size_t>(model)]; }

  /// What one slot's step is made of: addresses of its gradients by `trained()`, null where the
  /// loss does not reach the parameter, and of the new values of some tensors (spec, address).
  struct Made {
    std::vector<const void*> gradients;
    std::vector<std::pair<size_t, const void*>> buffers;
  };
  /// The step of the model in a slot, `factor` being the schedule's; a parameter without gradient
  /// is left as it is, as torch.optim leaves it. False, and nothing is written, where a gradient, a
  /// new buffer or what the step leads to is not finite. Any slots at once, each from one thread.
  bool write(int64_t slot, const Made& made, double factor);

  /// The work of a write, on copies: what a step's time is measured with.
  void rehearse(int64_t slot, const Made& made) const;

  void stop(int64_t model);
  void copy(int64_t from, int64_t to);

  std::map<std::string, Tensor> weights(bool averaged) const;
  /// As Trainer says of both.
  bool is_shared(const std::string& name) const;
  void set_weights(const std::map<std::string, Tensor>& weights);
  void save(std::map<std::string, Tensor>& into) const;
  void load(const std::map<std::string, Tensor>& from);
  int64_t bytes() const;
  /// What of a tensor steps write, by slot.
  struct Kept {
    Tensor tensor;
    bool shared = false;
    Tensors moments;  // by optimiser's state; undefined where not kept
    Tensor average;
    bool decays = true;
  };
  const Kept& kept(size_t k) const { return kept_[k]; }
  const Optimizer& formula() const { return *optimizer_; }
  /// Steps that the model in a slot has made, which correct its moments.
  int64_t& steps_at(int64_t slot) { return steps_[static_cast<size_t>(model_at(slot))]; }
  /// Changes whenever slots or tensors that steps do not write do.
  int64_t version() const { return version_; }

 private:
  template <class T>
  bool write_as(int64_t slot, const Made& made, double factor);
  template <class T>
  void rehearse_as(int64_t slot, const Made& made) const;
  template <class Visit>
  void for_each_rows(Visit visit);  // every tensor of rows, moments included
  Tensor rows_like(const Tensor& rows) const;
  Tensor by_model(const Tensor& rows) const;
  void keep_moments();
  void set_running(std::vector<int64_t> running);
  void run_all_in_order();
  Tensor weight_from(const std::map<std::string, Tensor>& weights, size_t k) const;
  const std::string& checked(const std::string& name) const;
  void check_value(const std::string& name, double value) const;
  void check_conflicts(int64_t model) const;
  std::vector<int64_t> slots_by_model() const;

  int64_t n_;
  bool aligned_;
  std::vector<TensorSpec> specs_;
  at::ScalarType dtype_ = at::kFloat;
  const Optimizer* optimizer_;
  std::vector<Kept> kept_;
  std::vector<size_t> trained_;
  std::map<std::string, std::vector<double>> hyper_;  // by model
  std::vector<const std::vector<double>*> in_order_;  // of it, as the optimiser reads them
  const std::vector<double>*clip_ = nullptr, *ema_ = nullptr;
  std::vector<uint64_t> seeds_;
  std::vector<int64_t> steps_;  // of each model, for the correction of biases
  std::vector<int64_t> model_at_, running_;
  int64_t version_ = 0;
};

}  // namespace wide
