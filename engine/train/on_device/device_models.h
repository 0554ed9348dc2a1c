#pragma once
#include "engine/train/models.h"

namespace wide {

/// The results of a step's program for R models.
struct DeviceStep {
  Tensor loss;                                          // [R]
  Tensors gradients = {};                               // by trained tensor; undefined: none
  std::vector<std::pair<size_t, Tensor>> buffers = {};  // new values, by spec
};

/// The running models' state on a device, and the step that writes it there. Trained parameters are
/// stored twice: each as the program reads it, and all of a model in one row, so that the optimiser
/// needs few calls. TrainedModels decides which models run, in which slots and how.
class DeviceModels {
 public:
  DeviceModels(TrainedModels& host, c10::Device device);

  /// Copies the running models from the host, in place if their number is the same as before.
  void upload();
  /// Copies the state on the device back to the host.
  void download();
  /// Changes when addresses of tensors change, or what a step computes, or weights from which
  /// values may have been precomputed.
  int64_t version() const { return version_; }

  /// The tensor of spec k, `[R, ...]`, or without R if shared.
  Tensor tensor(size_t k, bool averaged) const;
  /// Updates `tensor(k, true)`.
  void spread_averages();
  /// Sets the current hyperparameters, with the learning rate times `factor`. Copies nothing if
  /// they have not changed.
  void set_numbers(double factor);
  /// Makes the step, by operators that can be captured. Models that are not `active` (bool [R]), or
  /// would not be finite, are not changed. `outcome`: float64 [2, R], losses and whether a model
  /// was written.
  void step(const DeviceStep& made, const Tensor& active, const Tensor& outcome);

 private:
  /// Trained parameters with, or without, weight decay, as rows `[R, P]`.
  struct Group {
    bool decays = true;
    std::vector<size_t> at;        // indices in `trained()`
    std::vector<int64_t> offsets;  // of each parameter in a row
    Tensor parameter, average;
    Tensors moments;
    Tensors from, to;  // each parameter: in the row, and as programs read it
    Tensors average_from, average_to;
  };
  void place(Tensor& slot, const Tensor& made);
  Tensor row_of(const Group& group, const std::function<Tensor(size_t spec)>& tensor) const;
  void rows_to_host(const Group& group, const Tensor& rows,
                    const std::function<Tensor(size_t spec)>& tensor) const;
  void make_views(Group& group);
  Tensor kept_by(const Group& group, const DeviceStep& made, const Tensor& fine) const;

  TrainedModels& host_;
  c10::Device device_;
  int64_t count_ = 0;  // number of running models
  Tensors tensors_, averages_;
  std::vector<Group> groups_;
  Tensor steps_;              // float64 [R]
  Tensor numbers_, on_host_;  // [R, H + 2]: hyperparameters, clip, ema
  Tensor without_decay_;      // [H]: 0 for weight_decay, else 1
  bool clips_ = false;
  int64_t version_ = 0;
};

}  // namespace wide
