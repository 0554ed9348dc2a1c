#pragma once
#include "engine/train/models.h"

namespace wide {

/// What a step's program gives for R models.
struct DeviceStep {
  Tensor loss;                                          // [R]
  Tensors gradients = {};                               // by trained tensor; undefined: not reached
  std::vector<std::pair<size_t, Tensor>> buffers = {};  // new values, by spec
};

/// The running models' state on a device, and the step that writes it there. Trained parameters
/// lie twice: each as its program reads it, and all in one row a model, which an optimiser steps
/// with few calls. TrainedModels stays what decides who runs, in which slot, with which numbers.
class DeviceModels {
 public:
  DeviceModels(TrainedModels& host, c10::Device device);

  /// Takes the running models from the host, in place where that many were there before.
  void upload();
  /// Gives the host what the device has.
  void download();
  /// Changes with the addresses of tensors, with what a step computes, and with weights that
  /// something may have been made of ahead.
  int64_t version() const { return version_; }

  /// By specs, `[R, ...]`, or without R where shared.
  Tensor tensor(size_t k, bool averaged) const;
  /// Brings `tensor(k, true)` up to date.
  void spread_averages();
  /// Hyperparameters as they are now, the learning rate times `factor`. Nothing is copied where
  /// they have not changed.
  void set_numbers(double factor);
  /// The step, by operators that can be captured. Models that are not `active` (bool [R]), or that
  /// would not be finite, are left as they were. `outcome`: float64 [2, R], the losses and whether
  /// a model was written.
  void step(const DeviceStep& made, const Tensor& active, const Tensor& outcome);

 private:
  /// Trained parameters that weight decay treats alike, `[R, P]`.
  struct Group {
    bool decays = true;
    std::vector<size_t> at;        // positions in `trained()`
    std::vector<int64_t> offsets;  // of each in a row
    Tensor parameter, average;
    Tensors moments;
    Tensors from, to;  // each parameter in the row, and as programs read it
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
  int64_t count_ = 0;  // of running models
  Tensors tensors_, averages_;
  std::vector<Group> groups_;
  Tensor steps_;              // float64 [R]
  Tensor numbers_, on_host_;  // [R, H + 2]: hyperparameters, clip, ema
  Tensor without_decay_;      // [H]: 0 for weight_decay, else 1
  bool clips_ = false;
  int64_t version_ = 0;
};

}  // namespace wide
