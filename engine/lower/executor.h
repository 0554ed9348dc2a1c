#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "engine/lower/compiled_model.h"
#include "engine/lower/memory/arena.h"
#include "engine/lower/plan/plan.h"

namespace wide {

/// Program(n) for ranges of n models, after widening and the passes; an executor makes one for each
/// length of its ranges.
struct RangeProgram {
  WideProgram wide;
  std::vector<PassRecord> passes;
  std::set<ValueId> apart = {};       // PlanOptions::apart
  std::set<size_t> as_they_lie = {};  // PlanOptions::as_they_lie
  std::vector<ValueId> asked = {};    // results of the shared phase for Executor::shared_result
  bool lends_results = false;         // PlanOptions::lends_results
  std::vector<ValueId> placed = {};   // PlanOptions::placed

  /// `options` with what this program asks of its plans.
  PlanOptions plan_options(PlanOptions options = {}) const;
};

/// Makes Program(n) of the models [begin, begin + n).
using MakeProgram = std::function<std::shared_ptr<const RangeProgram>(int64_t begin, int64_t n)>;

/// Executors that share arenas must not run at the same time.
Arenas make_arenas(int threads, int64_t reused_from = kLargePage_bytes);  // as ArenaMemory
int64_t bytes_of(const Arenas& arenas);

struct ExecutorOptions {
  int threads = 1;
  int ranges = 1;       // contiguous ranges of models; 1: all at once, operators use the threads
  bool serial = false;  // operators use one thread, even with a single range
  PlanOptions plan;
  Arenas arenas = {};  // by thread; empty: the executor makes its own
  /// PlanOptions::gives_results, if all models are one range.
  bool gives_results = false;
};

/// A range of models [begin, begin + n), on a thread.
struct RangeAt {
  int thread = 0;
  int64_t begin = 0, n = 0;
};

/// For callers whose models' tensors are not stacked: addresses of a range's inputs and results.
/// Called on the threads, before and after the range's steps.
struct RangeHooks {
  /// Address of bound value `i` for this range, laid out as planned (null if it has no elements);
  /// nullopt: the slice of the tensor in `bound`.
  std::function<std::optional<void*>(const RangeAt& at, size_t i)> source;
  /// Bound value `i` for ranges of n models, if all models share it and it is not in `bound`.
  std::function<Tensor(int64_t n, size_t i)> of_all;
  /// Addresses that the results are written to, contiguous, in their order; then the address of
  /// `Plan::kept_bytes`, where the program has values that it places.
  std::function<std::vector<void*>(const RangeAt& at)> results;
  std::function<void(const RangeAt& at)> done;
};

/// Runs N models as contiguous ranges, one range per thread at a time, each by its plan on its
/// slice of inputs, weights and outputs.
class Executor {
 public:
  Executor(const Program& single, const Ensemble& ensemble, const MakeProgram& make,
           const ExecutorOptions& options);

  /// New weights: packing and folding run again. `bound` is in the order of `single.bound`; inputs
  /// in it are ignored.
  void set_weights(const Tensors& bound);
  /// `bound`: all tensors in the order of `single.bound`, inputs contiguous. Fills `results`
  /// (outputs, then updates), contiguous `[N, ...]`, except those that it `gives`.
  void run(const Tensors& bound, const Tensors& results);
  /// Whether a result is a tensor that its operator has allocated: ExecutorOptions::gives_results.
  bool gives(size_t result) const { return gives_results_ && only_plan().gives(result); }
  /// `results` of the last call with those that the executor gives.
  Tensors with_given(Tensors results);
  /// Runs with hooks. `bound` needs only the tensors for which `source` returns nullopt.
  void run(const Tensors& bound, const RangeHooks& hooks);
  /// The plan of ranges of n models, which says where the values lie that their program places.
  const Plan& plan(int64_t n) const { return *sizes_.at(n).plans.front(); }
  /// A result of the last call's shared phase for ranges of n models: one of `RangeProgram::asked`.
  const Tensor& shared_result(int64_t n, ValueId id) const { return sizes_.at(n).shared.at(id); }
  /// The cost of each step of one range.
  std::vector<StepCost> explain(const Tensors& bound, const Tensors& results);
  /// The peak of bytes that the operators of one range allocate, for results that are not placed
  /// and while they work.
  int64_t allocated_bytes(const Tensors& bound, const Tensors& results);
  /// One call: the ranges that each thread ran, and their steps.
  TimelineCall timeline(const Tensors& bound, const Tensors& results);

  /// Keeps the arenas where they are, as captured graphs need it.
  std::unique_ptr<ArenaLease> hold_arenas() const {
    return std::make_unique<ArenaLease>(options_.arenas);
  }

  int ranges() const { return static_cast<int>(ranges_.size()); }
  int64_t models_at_a_time() const { return ranges_.back().n; }  // in the longest ranges
  int64_t bytes() const;                                         // with all arenas, shared ones too
  int64_t arena_bytes() const;                                   // for one thread
  int64_t steps() const;  // operator calls of one call, over all ranges
  /// FLOPs that the kernels of one call execute, where that differs from the definition; else 0.
  double computed_flops() const;
  std::string text() const;
  /// The program of the longest ranges; others have at most one model less.
  const std::shared_ptr<const RangeProgram>& program() const { return program(models_at_a_time()); }
  /// The same for ranges of n models.
  const std::shared_ptr<const RangeProgram>& program(int64_t n) const {
    return sizes_.at(n).program;
  }
  /// Sizes and types of the results for all N models. A result that is one for a whole range lies
  /// in the row of its first model.
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

  /// Calls `visit` with the plan of the first range, ready to run, on a thread that runs ranges.
  void with_first_range(const Tensors& bound, const Tensors& results,
                        const std::function<void(Plan&)>& visit);
  void make_plans(const Program& single, const MakeProgram& make, const Tensors& bound);
  std::unordered_map<ValueId, Tensor> known_weights(const Range& range, const Tensors& bound) const;
  void run_shared(const Tensors& bound, const RangeHooks& hooks);
  void run_shared_phase(const Tensors& bound, const RangeHooks& hooks);  // if there is one
  Plan& prepare(int thread, int range, const Tensors& bound, const RangeHooks& hooks);
  RangeHooks side_by_side(const Tensors& results) const;
  c10::Device device() const;
  Plan& only_plan() const { return *sizes_.begin()->second.plans.front(); }
  void for_each_range(const std::function<void(int thread, int range)>& work) const;
  Tensor slice(const Tensors& bound, size_t i, const Range& range) const;

  int64_t n_;
  std::vector<bool> shared_;
  ExecutorOptions options_;
  std::vector<Range> ranges_;
  std::map<int64_t, PerSize> sizes_;
  bool has_shared_phase_ = false, gives_results_ = false;
};

}  // namespace wide
