#pragma once
#include <memory>
#include <set>
#include <unordered_map>

#include "engine/lower/memory/arena.h"
#include "engine/measure/roofline.h"
#include "engine/program.h"

namespace wide {

/// A tensor whose memory can be moved to another address between calls, together with all its
/// views, without recreating the views.
class Window {
 public:
  Window() = default;
  explicit Window(const Value& value);
  const Tensor& tensor() const { return tensor_; }
  bool exists() const { return tensor_.defined(); }
  void point_at(void* data);

 private:
  Tensor tensor_;
};

struct PackedCall;

/// Which nodes run packed. The first plan of a program measures it and shares it with the plans for
/// other threads.
using PackingChoices = std::unordered_map<size_t, std::shared_ptr<const PackedCall>>;

struct PlanOptions {
  bool arena = true;    // results into one arena; off: every step allocates
  bool kernels = true;  // pack weights, and let kernels apply the activation that follows
  std::shared_ptr<PackingChoices> packing = std::make_shared<PackingChoices>();
  /// Results of the program are written past the caches, by operators that can `stream`.
  bool stream_results = false;
  bool serial = true;                 // runs on one thread, as one range of several
  std::set<ValueId> apart = {};       // values that no other node's epilogue may compute
  std::set<size_t> as_they_lie = {};  // positions of results that keep their strides
  /// Results that lie in memory of their own, which their operator allocated, are handed over by
  /// `Plan::given` instead of copied to the caller's memory.
  bool gives_results = false;
  /// The memory of results holds other values until they are written.
  bool lends_results = false;
  /// Values from outside that lie where the plan says, in memory that it may use once they have
  /// been read for the last time: that of results (`lends_results`), else in a block of
  /// `kept_bytes`.
  std::vector<ValueId> placed = {};
  /// Memory of the arena, shared by plans that never run at the same time; whoever runs them holds
  /// an ArenaLease. Null: the plan's own, for as long as it lives.
  std::shared_ptr<ArenaMemory> memory = nullptr;
};

/// A result that the operator allocates itself; `element` is -1 unless it is a list's element.
/// `given`: the result of the program that it is handed over as, or -1.
struct FreshResult {
  size_t result = 0;
  int64_t element = -1;
  size_t window = 0;
  int64_t given = -1;
};

/// One operator call, its tensors bound once.
struct Step {
  c10::OperatorHandle op;
  Stack stack;                                     // arguments, out-tensors included
  std::vector<std::pair<size_t, size_t>> patches;  // argument index, index into `outside`
  std::vector<FreshResult> results;
  std::vector<std::pair<Tensor, Tensor>> copies;  // fresh result, result of the program
  std::vector<size_t> releases;                   // windows whose fresh result is freed afterwards
  Origin origin;
  std::string shape;               // of the first result, for --explain
  std::string text;                // operator as it is run
  std::vector<size_t> lists = {};  // arguments that are lists with conjugated or negated tensors
  StepWork work = {};
};

/// The main part of Program(N), ready to run on one thread: views are made once, results lie in an
/// arena by lifetime, weights are packed, and kernels write over arguments that are not read again.
class Plan {
 public:
  /// `prologue`: sample tensors of the prologue's results, for timing packing.
  Plan(const Program& program, const std::unordered_map<ValueId, Tensor>& prologue,
       const PlanOptions& options = {});
  struct Memory {
    int64_t arena_bytes = 0;
    int64_t fresh_bytes = 0;  // of results that operators allocate
    int64_t kept_bytes = 0;
  };
  /// What a plan of `program` would take, without allocating it or timing packed weights.
  static Memory memory_of(const Program& program, const PlanOptions& options = {});

  /// Values from outside: bound values, and results of prologue and shared phase, that main reads.
  const std::vector<ValueId>& outside() const { return outside_; }
  /// Gives outside value k a tensor of the planned sizes and strides. A tensor without strides
  /// (such as oneDNN's) is kept; for others only the address is.
  void bind(size_t k, const Tensor& tensor);
  /// `bind` by address, for a value with strides.
  void bind(size_t k, void* data) { windows_[k].point_at(data); }
  /// Packs outside value k, once for each set of weights; returns `tensor` if it is not packed.
  Tensor prepare(size_t k, const Tensor& tensor) const;
  /// Addresses of outputs, then updates, contiguous, except those of `as_they_lie`; then that of
  /// `kept_bytes`, if there are any. Those of results that the plan gives are ignored.
  void bind_outputs(const std::vector<void*>& data);
  /// Runs all steps on this thread, then copies those results that no step wrote in place.
  void run();
  /// Runs the steps only.
  void run_steps();
  /// Runs and returns the nanoseconds of each step.
  std::vector<double> run_timed(c10::Device device);
  /// Runs and fills `at_ns` with times: when each step began, when the last step ended, and when
  /// the results were copied. On a device it waits after each step.
  void run_stamped(c10::Device device, std::vector<double>& at_ns);
  bool copies_out() const { return !copies_.empty(); }
  bool gives(size_t result) const { return gives_[result]; }
  /// The last run's tensor of a result that the plan gives; the plan keeps it no longer.
  Tensor given(size_t result) { return std::move(given_[result]); }

  const std::vector<Step>& steps() const { return steps_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  /// Where `PlanOptions::placed` lie, in its order: in a result, or in what is given behind them.
  const std::vector<BufferPlace>& placed() const { return placed_; }
  int64_t kept_bytes() const { return kept_bytes_; }
  const std::vector<Value>& results() const { return results_; }  // outputs then updates
  std::string text() const;

 private:
  friend class PlanBuilder;
  Plan() = default;
  void execute(Step& step);
  void place_arena();  // moves values to the arena's current memory

  std::vector<Step> steps_;
  std::vector<ValueId> outside_;
  std::vector<Window> windows_;  // of outside values, then of fresh results and outputs
  Tensors kept_;                 // opaque outside values as bound
  Tensors held_;                 // live fresh results, by window
  std::unordered_map<size_t, std::function<Tensor(const Tensor&)>> prepare_;
  std::vector<std::pair<Tensor, Tensor>> copies_;  // value, output window: neither written directly
                                                   // nor copied by the step that makes it
  std::vector<size_t> output_windows_;
  std::vector<Value> results_;
  std::vector<bool> gives_;  // by result
  Tensors given_;            // by result
  std::shared_ptr<ArenaMemory> memory_;
  std::unique_ptr<ArenaLease> lease_;  // of memory of its own
  std::vector<BufferPlace> placed_;
  int64_t kept_bytes_ = 0;
  char* arena_at_ = nullptr;                          // where `in_arena_` lie
  std::vector<std::pair<Window, int64_t>> in_arena_;  // values, and their offsets
  std::vector<std::pair<Window, BufferPlace>> in_lent_;
  int64_t arena_bytes_ = 0;
  std::vector<std::string> notes_;
};

/// Runs the nodes of one phase with the interpreter: reads values from `known`, adds results to it.
void run_phase(const Program& program, Phase phase, std::unordered_map<ValueId, Tensor>& known);

}  // namespace wide
