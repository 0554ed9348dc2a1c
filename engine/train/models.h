#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// The state of N models in training: tensors, moments, counters, hyperparameters. Running models
/// are in slots [0, R), ascending; stopped ones behind them.
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

  /// The tensor of spec k: `[N, ...]` by slot, or without N if shared. `averaged`: averaged
  /// parameters if there are any.
  Tensor tensor(size_t k, bool averaged = false) const;
  bool shared(size_t k) const { return kept_[k].shared; }
  /// Indices of trained tensors' specs, in order.
  const std::vector<size_t>& trained() const { return trained_; }

  double hyper(const std::string& name, int64_t model) const;
  void set_hyper(const std::string& name, int64_t model, double value);
  bool any(const std::string& name) const;  // whether any model's value is not 0
  uint64_t seed(int64_t model) const { return seeds_[static_cast<size_t>(model)]; }

  /// The input of one slot's step: addresses of its gradients by `trained()`, null if the loss does
  /// not depend on the parameter, and of new values of buffers (spec, address).
  struct Made {
    std::vector<const void*> gradients;
    std::vector<std::pair<size_t, const void*>> buffers;
  };
  /// Makes the step of the model in a slot; `factor`: the schedule's. A parameter without gradient
  /// is not changed, as in torch.optim. Returns false and writes nothing if a gradient, a new
  /// buffer or a result is not finite. Several threads may write different slots.
  bool write(int64_t slot, const Made& made, double factor);

  /// Does the work of `write` on copies, for timing steps.
  void rehearse(int64_t slot, const Made& made) const;

  void stop(int64_t model);
  void copy(int64_t from, int64_t to);

  std::map<std::string, Tensor> weights(bool averaged) const;
  bool is_shared(const std::string& name) const;
  void set_weights(const std::map<std::string, Tensor>& weights);
  void save(std::map<std::string, Tensor>& into) const;
  void load(const std::map<std::string, Tensor>& from);
  int64_t bytes() const;
  /// A tensor and the state that belongs to it, by slot.
  struct Kept {
    Tensor tensor;
    bool shared = false;
    Tensors moments;  // by optimiser's state; undefined if not used
    Tensor average;
    bool decays = true;
  };
  const Kept& kept(size_t k) const { return kept_[k]; }
  const Optimizer& formula() const { return *optimizer_; }
  /// Number of steps of its moments that the model in a slot made, for their bias correction.
  int64_t& steps_at(int64_t slot) { return steps_[static_cast<size_t>(model_at(slot))]; }
  /// Changes when slots change, or tensors that steps do not write.
  int64_t version() const { return version_; }

 private:
  template <class T>
  bool write_as(int64_t slot, const Made& made, double factor);
  template <class T>
  void rehearse_as(int64_t slot, const Made& made) const;
  /// Calls `visit(name, tensor, shared)` for every tensor, moments included, by its name in a
  /// state.
  template <class Self, class Visit>
  static void for_each_tensor(Self& self, Visit visit);
  Tensor rows_like(const Tensor& rows) const;
  Tensor by_model(const Tensor& rows) const;
  void keep_moments(const std::map<std::string, Tensor>& held = {});
  void set_running(std::vector<int64_t> running);
  void run_all_in_order();
  Tensor weight_from(const std::map<std::string, Tensor>& weights, size_t k) const;
  const std::string& checked(const std::string& name) const;
  void check_model(int64_t model) const;
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
  std::vector<const std::vector<double>*> in_order_;  // of hyper_, in the optimiser's order
  const std::vector<double>*clip_ = nullptr, *ema_ = nullptr;
  std::vector<uint64_t> seeds_;
  std::vector<int64_t> steps_;  // of each model's moments
  std::vector<int64_t> model_at_, running_;
  int64_t version_ = 0;
};

}  // namespace wide
