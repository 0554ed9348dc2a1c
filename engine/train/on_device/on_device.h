#pragma once
#include "engine/device.h"
#include "engine/train/on_device/device_columns.h"
#include "engine/train/on_device/device_models.h"
#include "engine/train/trainer_impl.h"

namespace wide {

/// What a trainer does on a device instead of on the CPU. All running models are one range. For
/// each size of batch a program is planned; with what the optimiser does it is captured as one
/// graph, which a step replays on memory that stays where it is.
class OnDevice {
 public:
  /// Throws Error: no such device (exit code 6), or an option that only the CPU has.
  explicit OnDevice(Trainer::Impl& impl);

  void prepare(const Batch& batch);
  StepResult step(const Batch& batch);
  std::map<std::string, Tensor> gradients(const Batch& batch, Tensor* losses);
  Tensors evaluate(const Batch& batch);
  StepCheck check(const Batch& batch, int64_t count);

  /// Calls `change` on the host's models when they are what the device's are; afterwards the device
  /// takes them over.
  void change(const std::function<void()>& change);
  void set_hyperparameter(const std::string& name, int64_t model, double value);
  /// Brings the host's models up to date, for reading.
  void bring_back();
  /// Of the largest planned size.
  int64_t program_bytes() const;

 private:
  /// What is planned for batches of one size.
  struct Planned {
    PlannedSize size;
    std::unique_ptr<Executor> executor;
    Tensors bound, results;  // on the device, for good
    Tensor active, outcome;  // of a step: DeviceModels::step
    std::unique_ptr<DeviceGraph> graph;
    int64_t version = -1, numbers = -1;
  };
  void expect_models() const;
  Planned& plan(const Call& call, bool step);
  void build(Planned& p, const Call& call);
  void fill(Planned& p, const Call& call);
  void fill_numbers(Planned& p, const Call& call);
  void compute(Planned& p);
  void launch(Planned& p);
  /// Loss and gradients of all running models, by the program alone.
  Planned& differentiate(const Batch& batch);
  Tensors step_of(const Planned& p, int64_t slot) const;

  Trainer::Impl& impl_;
  c10::Device device_;
  DeviceModels models_;
  DeviceColumns columns_;
  std::map<std::string, std::unique_ptr<Planned>> planned_, on_cpu_;
  bool host_is_newer_ = true, device_is_newer_ = false;
  int64_t numbers_ = 0;  // changes with hyperparameters and seeds
};

}  // namespace wide
