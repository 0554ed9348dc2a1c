#pragma once
#include "engine/device.h"
#include "engine/train/on_device/device_columns.h"
#include "engine/train/on_device/device_models.h"
#include "engine/train/trainer_impl.h"

namespace wide {

/// A trainer's work on a device instead of the CPU. All running models are one range. For each
/// batch size the program is lowered and, with the optimiser's step, captured as one graph, which
/// steps replay on memory with fixed addresses.
class OnDevice {
 public:
  /// Throws Error for a missing device (exit code 6), or an option that only the CPU supports.
  explicit OnDevice(Trainer::Impl& impl);

  void prepare(const Batch& batch);
  StepResult step(const Batch& batch);
  std::map<std::string, Tensor> gradients(const Batch& batch, Tensor* losses);
  Tensors evaluate(const Batch& batch);
  StepCheck check(const Batch& batch, int64_t count);

  /// Updates the host's models from the device, calls `change`, and copies them back before the
  /// next step.
  void change(const std::function<void()>& change);
  void set_hyperparameter(const std::string& name, int64_t model, double value);
  /// Updates the host's models, for reading.
  void bring_back();
  /// Bytes of the program for the largest batch size so far.
  int64_t program_bytes() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  /// The lowered program for batches of one size.
  struct Planned {
    explicit Planned(PlannedSize recorded) : size(std::move(recorded)) {}
    PlannedSize size;
    std::unique_ptr<Executor> executor;
    Tensors bound, results;  // on the device, with fixed addresses
    Tensor active, outcome;  // for a step: see DeviceModels::step
    std::unique_ptr<DeviceGraph> graph;
    bool by_call = false;  // it cannot be captured
    int64_t version = -1, numbers = -1;
  };
  Planned& plan(const Call& call, bool step);
  void build(Planned& p, const Call& call);
  void fill(Planned& p, const Call& call);
  void fill_numbers(Planned& p, const Call& call);
  void compute(Planned& p);
  void launch(Planned& p);
  Tensors step_of(const Planned& p, int64_t slot) const;

  Trainer::Impl& impl_;
  c10::Device device_;
  DeviceModels models_;
  DeviceColumns columns_;
  std::map<std::string, std::unique_ptr<Planned>> planned_;
  std::map<std::string, std::unique_ptr<PlannedSize>> on_cpu_;
  bool host_is_newer_ = true, device_is_newer_ = false;
  std::vector<std::string> notes_;
  int64_t numbers_ = 0;  // changes when hyperparameters or seeds do
};

}  // namespace wide
