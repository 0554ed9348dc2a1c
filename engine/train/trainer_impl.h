#pragma once
#include "engine/lower/tune/tuned_widening.h"
#include "engine/train/choices.h"
#include "engine/train/columns.h"
#include "engine/train/models.h"
#include "engine/train/range_memory.h"
#include "engine/train/step_program.h"

namespace wide {

/// The recording and the lowered program for one batch size, of steps or evaluations.
struct PlannedSize {
  std::string key;
  bool step = false;
  c10::Device device = c10::kCPU;  // for which it is recorded
  LossNetwork form;                // for an evaluation: without a loss
  std::vector<size_t> columns;     // bound values from a batch, as in `Call::columns`
  Program single;
  std::vector<size_t> trained;               // bound values
  std::vector<size_t> updated;               // specs, by update of the program
  std::vector<bool> shared;                  // of each bound value
  std::shared_ptr<WithGradients> gradients;  // for a step
  Choice choice;
  int64_t chosen_for = 0;  // number of running models
  std::unique_ptr<TunedWidening> widening;
  /// By the number of models for which strategies were chosen, and the number in a range.
  std::map<std::pair<int64_t, int64_t>, PlannedRange> programs;
  std::unique_ptr<Executor> executor;
  int64_t version = -1;             // of the models that the executor is made for
  std::vector<RangeMemory> memory;  // by thread
};

/// A batch prepared for one call.
struct Call {
  std::vector<BatchColumn> columns;
  std::string key;
};

struct Trainer::Impl {
  Impl(Forms forms, std::vector<InputForm> inputs, std::map<std::string, StartTensor> start,
       TrainerOptions options);

  /// Called with each model's results of a step, by slot, from several threads.
  using Visit = std::function<void(int64_t slot, double loss, const TrainedModels::Made& made)>;
  /// Throws Error if all models are stopped.
  void need_models() const;
  void run_step(const Batch& batch, const Visit& visit);
  Tensors run_evaluation(const Batch& batch);
  void prepare(const Batch& batch);
  StepCheck check(const Batch& batch, int64_t count);
  /// Checks steps of up to `count` running models. `trained`: the tensors that `run` reads, by
  /// slot. `run`: loss and gradients of the models of these slots, each by its slot.
  StepCheck check_steps(
      const PlannedSize& recorded, const Call& call, int64_t count, const Tensors& trained,
      const std::function<std::vector<Tensors>(const std::vector<int64_t>&)>& run) const;
  static int64_t bytes_of_range(const PlannedSize& p, const Executor& executor);
  /// What the executor's longest ranges recompute.
  static Recomputed recomputed(const PlannedSize& p, const Executor& executor);

  Forms forms;
  std::vector<InputForm> inputs;
  TrainerOptions options;
  int threads;
  TrainedModels models;
  Choices choices;
  int64_t steps = 0;
  int64_t recordings = 0;
  std::map<std::string, std::unique_ptr<PlannedSize>> planned;

 private:
  friend class OnDevice;
  Call read(const Batch& batch, bool step) const;
  PlannedSize& plan(const Call& call, bool step);
  PlannedSize record_size(const Call& call, bool step, c10::Device device = c10::kCPU);
  bool may_be_short(const PlannedSize& p, int64_t n) const;
  Program recorded_single(const PlannedSize& p, const Ensemble& some) const;
  PlannedRange planned_range(const PlannedSize& p, int64_t at_a_time, const Ensemble& some) const;
  /// For each of `slots`: the loss of a step, then its gradients.
  std::vector<Tensors> steps_of(const Batch& batch, const std::vector<int64_t>& slots);
  int64_t ranges(int64_t at_a_time) const;
  std::unique_ptr<TunedWidening> widening(const PlannedSize& p) const;
  std::unique_ptr<Executor> executor(PlannedSize& p, const Call& call, int64_t at_a_time);
  const std::pair<const int64_t, Choice>* known_choice(const PlannedSize& p) const;
  void choose(PlannedSize& p, const Call& call);
  TrainedModels::Made made(const PlannedSize& p, const Tensors& results, int64_t j) const;
  /// The bound tensors of the models in slots [begin, begin + n); `with_columns`: including the
  /// batch.
  Ensemble ensemble(const PlannedSize& p, const Call& call, int64_t begin, int64_t n,
                    bool with_columns) const;
  void run(PlannedSize& p, Executor& executor, const Call& call,
           const std::function<void(const RangeAt&)>& done);
  RangeMemory& memory(PlannedSize& p, const Executor& executor, int thread) const;
};

}  // namespace wide
