#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "engine/lower/compiled_model.h"
#include "engine/lower/plan/plan.h"

namespace wide {

/// Program(n) for the sizes of range that an executor uses, widened and passed through the passes
/// once each.
struct RangeProgram {
  WideProgram wide;
  std::vector<PassRecord> passes;
  std::set<ValueId> apart = {};       // PlanOptions::apart
  std::set<size_t> as_they_lie = {};  // PlanOptions::as_they_lie
  std::vector<ValueId> asked = {};    // of the shared phase's results: for Executor::shared_result
};

/// Makes Program(n) of the models [begin, begin + n).
using MakeProgram = std::function<std::shared_ptr<const RangeProgram>(int64_t begin, int64_t n)>;

/// One arena for each thread. Executors that share arenas must not run at the same time.
using Arenas = std::vector<std::shared_ptr<ArenaMemory>>;

Arenas make_arenas(int threads);
int64_t bytes_of(const Arenas& arenas);

struct ExecutorOptions {
  int threads = 1;
  int ranges = 1;       // contiguous ranges of models; 1: all at once, operators use the threads
  bool serial = false;  // operators use one thread even where there is only one range
  PlanOptions plan;
  Arenas arenas = {};  // of each thread; none: the executor's own
};

/// Models [begin, begin + n) on a thread.
struct RangeAt {
  int thread = 0;
  int64_t begin = 0, n = 0;
};

/// For callers whose models' tensors are not stacked: where a range's inputs and results lie.
/// Called on the threads, before and after the range's steps.
struct RangeHooks {
  /// Address of bound value `i` for this range, laid out as planned (null if it has no elements);
  /// nullopt: the slice of the tensor in `bound`.
  std::function<std::optional<void*>(const RangeAt& at, size_t i)> source;
  /// Bound value `i` of ranges of n models, where it is one for all models and not in `bound`.
  std::function<Tensor(int64_t n, size_t i)> of_all;
  /// Addresses that the results are written to, contiguous, in their order.
  std::function<std::vector<void*>(const RangeAt& at)> results;
  std::function<void(const RangeAt& at)> done;
};

/// Runs N models as contiguous ranges, one range per thread at a time, each through its planned
/// program on its own slice of inputs, weights and outputs.
class Executor {
 public:
  Executor(const Program& single, const Ensemble& ensemble, const MakeProgram& make,
           const ExecutorOptions& options);

  /// New weights: packing and folding run again. `bound` is in the order of `single.bound`; inputs
  /// in it are ignored.
  void set_weights(const Tensors& bound);
  /// `bound`: all tensors in the order of `single.bound`, inputs contiguous. Fills `results`
  /// (outputs, then updates), contiguous `[N, ...]`.
  void run(const Tensors& bound, const Tensors& results);
  /// The same with hooks. `bound` needs only the tensors for which `source` returns nullopt.
  void run(const Tensors& bound, const RangeHooks& hooks);
  /// What the last call's shared phase made for ranges of n models: one of `RangeProgram::asked`.
  const Tensor& shared_result(int64_t n, ValueId id) const { return sizes_.at(n).shared.at(id); }
  /// Per step of one range: its cost in nanoseconds.
  std::vector<StepCost> explain(const Tensors& bound, const Tensors& results);
  /// One call on its threads: the ranges that each took, and in them the steps.
  TimelineCall timeline(const Tensors& bound, const Tensors& results);

  int ranges() const { return static_cast<int>(ranges_.size()); }
  int64_t models_at_a_time() const { return ranges_.back().n; }  // of the longest ranges
  int64_t bytes() const;                                         // arenas included, shared ones too
  int64_t arena_bytes() const;                                   // of one thread
  int64_t steps() const;  // operator calls of one call, over all ranges
  /// FLOPs that the kernels of one call execute, where that differs from the definition; else 0.
  double computed_flops() const;
  std::string text() const;
  /// The program of the longest ranges; others have one model less at most.
  const std::shared_ptr<const RangeProgram>& program() const { return program(models_at_a_time()); }
  /// The same for ranges of n models.
  const std::shared_ptr<const RangeProgram>& program(int64_t n) const {
    return sizes_.at(n).program;
  }
  /// Sizes and types of the results for all N models. A result that a range has only one of lies in
  /// the row of the range's first model.
  std::vector<Value> results() const;

 private:
  struct Range {
    int64_t begin = 0, n = 0;
    Tensors fixed;  // by position in outside(): values that depend on weights alone; else undefined
  };
  struct PerSize {
    std::shared_ptr<const RangeProgram> program;
    std::vector<std::unique_ptr<Plan>> plans;     // by thread
    std::vector<int64_t> bound_at;                // by position in outside(): index in bound, or -1
    std::vector<int> bound_range;                 // by thread: the range whose values are bound
    std::unordered_map<ValueId, Tensor> weights;  // values of weights, for the shared phase
    std::unordered_map<ValueId, Tensor> shared;   // this call's results of the shared phase
  };

  void make_plans(const Program& single, const MakeProgram& make, const Tensors& bound);
  std::unordered_map<ValueId, Tensor> known_weights(const Range& range, const Tensors& bound) const;
  void run_shared(const Tensors& bound, const RangeHooks& hooks);
  void run_shared_phase(const Tensors& bound, const RangeHooks& hooks);  // where there is one
  Plan& prepare(int thread, int range, const Tensors& bound, const RangeHooks& hooks);
  RangeHooks side_by_side(const Tensors& results) const;
  void for_each_range(const std::function<void(int thread, int range)>& work) const;
  Tensor slice(const Tensors& bound, size_t i, const Range& range) const;

  int64_t n_;
  std::vector<bool> shared_;
  ExecutorOptions options_;
  std::vector<Range> ranges_;
  std::map<int64_t, PerSize> sizes_;
  bool has_shared_phase_ = false;
};

}  // namespace wide
