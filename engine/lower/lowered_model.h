#pragma once
#include "engine/device.h"
#include "engine/lower/compile_options.h"
#include "engine/lower/executor.h"
#include "engine/lower/memory/result_memory.h"
#include "engine/lower/tune/tuned_widening.h"

namespace wide {

/// The result of `compile`, run by a LoweredModel.
struct Lowered {
  Network network;
  Ensemble ensemble;  // contiguous; calls bind their inputs into it
  CompileOptions options;
  std::shared_ptr<const Program> single;
  std::shared_ptr<const TunedWidening> widening;
  std::unique_ptr<Executor> executor;
  ResultMemory results;
  std::shared_ptr<const SizeChoices> choices;
  /// Program(N) of all models at once, with the strategies that the executor runs.
  std::function<std::shared_ptr<const RangeProgram>(const Ensemble&)> whole;
};

/// Runs an executor on the caller's inputs, in mode reduce-overhead as one captured graph.
class LoweredModel final : public CompiledModel {
 public:
  explicit LoweredModel(Lowered made);

  Tensors run(const Tensors& inputs) override;
  std::function<Tensors()> repeated(const Tensors& inputs, const FedBack& back) override;
  void set_weights(const Tensors& weights) override;
  const Program& single() const override { return *made_.single; }
  const Program& program() const override { return whole_program().wide.program; }
  std::vector<std::string> differences() const override;
  const Coverage& coverage() const override { return made_.executor->program()->wide.coverage; }
  const std::vector<PassRecord>& passes() const override;
  std::vector<StepCost> explain(const Tensors& inputs) override;
  TimelineCall timeline(const Tensors& inputs) override;
  int ranges() const override { return made_.executor->ranges(); }
  void hold(const Tensors& inputs) override;
  std::string plan_text() const override { return made_.executor->text(); }
  int64_t bytes() const override { return made_.executor->bytes(); }
  int64_t steps() const override { return made_.executor->steps(); }
  double computed_flops() const override { return made_.executor->computed_flops(); }
  std::shared_ptr<const SizeChoices> size_choices() const override { return made_.choices; }

 private:
  const RangeProgram& whole_program() const;
  Tensors replay(const Tensors& inputs);
  void fill_slots(const Tensors& inputs);
  void check_input(size_t k, const Tensors& inputs) const;
  void bind_inputs(const Tensors& inputs);

  Lowered made_;
  mutable std::shared_ptr<const RangeProgram> whole_;
  // Mode reduce-overhead: the tensors that the graph reads, in the ensemble's order, and those that
  // it writes. Their addresses are fixed since it was captured.
  Tensors slots_, captured_;
  std::unique_ptr<ArenaLease> held_;  // replays read the arenas
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace wide
