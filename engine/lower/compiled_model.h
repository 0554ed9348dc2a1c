#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/lower/tune/tuning.h"
#include "engine/measure/timeline.h"
#include "engine/network.h"
#include "engine/passes/pass.h"
#include "engine/widen/widen.h"

namespace wide {

/// One line of `--explain`: a step of the wide program and what it costs.
struct StepCost {
  std::string op, module, primitive, strategy, shape;
  double median_ns = 0;
  double share = 0;           // of the sum over all steps
  int32_t node = -1;          // where it comes from in the program of one model
  double flops = 0;           // by the definition
  double computed_flops = 0;  // what the kernel computes, if it reports it; else 0
  double bytes = 0;           // read and written
};

/// Results that become inputs of the next call, as pairs (output, input).
using FedBack = std::vector<std::pair<size_t, size_t>>;

/// A compiled wide program with its weights. Not thread-safe: one call at a time.
class CompiledModel {
 public:
  virtual ~CompiledModel() = default;
  /// Inputs in the order of the network's inputs, `[N, ...]` (shared ones without N). Returns
  /// the outputs, then the buffer updates, all `[N, ...]`. The memory of a result is reused only
  /// after the caller has released the tensor.
  virtual Tensors run(const Tensors& inputs) = 0;
  /// A call for timing, on the same inputs each time, whose results the next call may overwrite. It
  /// refers to this model.
  virtual std::function<Tensors()> repeated(const Tensors& inputs, const FedBack& back);
  /// Keeps these inputs and releases those of the last call or of compiling.
  virtual void hold(const Tensors& /*inputs*/) {}
  /// New weights (all non-input tensors in the network's order); folding and packing run again.
  virtual void set_weights(const Tensors& weights) = 0;

  virtual const Program& single() const = 0;  // Program(1) as recorded
  /// Program(N) after the passes, for display: with the strategies that run. Ranges of fewer models
  /// may use a strategy that does not apply to all N at once; `differences` lists such calls.
  virtual const Program& program() const = 0;
  virtual std::vector<std::string> differences() const { return {}; }
  virtual const Coverage& coverage() const = 0;
  /// What each pass did to the program of a range of models, which runs, or, if the passes' texts
  /// are kept, to Program(N).
  virtual const std::vector<PassRecord>& passes() const = 0;
  virtual std::vector<StepCost> explain(const Tensors& inputs) = 0;
  /// One call, step by step, on the threads that run it.
  virtual TimelineCall timeline(const Tensors& /*inputs*/) { return {}; }
  virtual int ranges() const = 0;
  virtual std::string plan_text() const = 0;   // the lowering plan as text: ranges, layouts, arena
  virtual int64_t bytes() const = 0;           // packed weights and arenas
  virtual int64_t steps() const { return 0; }  // operator calls of one call, over all ranges
  /// FLOPs that the kernels of one call execute, where that differs from the definition (Winograd);
  /// else 0.
  virtual double computed_flops() const { return 0; }
  /// The strategies and ranges chosen, to be reused when another input size is compiled.
  virtual std::shared_ptr<const SizeChoices> size_choices() const { return nullptr; }
};

/// A call that can be repeated for timing. For a training step, the results of one call are the
/// state that the next one starts from. Keeps a reference to `model`, and `inputs` alive.
std::function<void()> repeated_call(CompiledModel& model, const Network& network,
                                    const Tensors& inputs);

}  // namespace wide
