#pragma once
#include <memory>
#include <set>
#include <unordered_map>

#include "engine/measure/roofline.h"
#include "engine/program.h"

namespace wide {

/// Memory that a tensor and its views look at and that can be pointed somewhere else between
/// calls, without making the views again.
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
class ArenaMemory;

/// Which nodes run packed: measured by the first plan of a program and shared by its plans for
/// other threads.
using PackingChoices = std::unordered_map<size_t, std::shared_ptr<const PackedCall>>;

struct PlanOptions {
  bool arena = true;    // results into one arena; off: every step allocates
  bool kernels = true;  // pack weights, and let operators do the activation behind them
  std::shared_ptr<PackingChoices> packing = std::make_shared<PackingChoices>();
  /// Results that nothing reads again go past the caches, for operators that can `stream`.
  bool stream_results = false;
  bool serial = true;                 // to be run single-threaded, as a range among others
  std::set<ValueId> apart = {};       // made by a call of their own, by no kernel of an earlier one
  std::set<size_t> as_they_lie = {};  // results, by position, that keep their order of dimensions
  /// Where the arena lies, for plans that never run at the same time; null: in memory of its own.
  std::shared_ptr<ArenaMemory> memory = nullptr;
};

/// A result that the operator allocates itself: element -1 means the result is no list.
struct FreshResult {
  size_t result = 0;
  int64_t element = -1;
  size_t window = 0;
};

/// One operator call, its tensors bound once.
struct Step {
  c10::OperatorHandle op;
  Stack stack;                                     // arguments, out-tensors included
  std::vector<std::pair<size_t, size_t>> patches;  // argument index, index into `outside`
  std::vector<FreshResult> results;
  std::vector<std::pair<Tensor, Tensor>> copies;  // of fresh results to the program's results
  std::vector<size_t> releases;                   // windows whose fresh result goes after this step
  Origin origin;
  std::string shape;               // of the first result, for --explain
  std::string text;                // operator as it is run
  std::vector<size_t> lists = {};  // arguments: lists with a conjugate or minus yet to be taken
  StepWork work = {};
};

/// The main part of Program(N), planned for one thread at a time: views made once, results in an
/// arena by lifetime, packed weights, in-place where an argument dies.
class Plan {
 public:
  /// `prologue` gives sample tensors for the values the prologue makes (for packing decisions).
  Plan(const Program& program, const std::unordered_map<ValueId, Tensor>& prologue,
       const PlanOptions& options = {});
  /// Bytes of the arena that a plan of `program` would take, without taking them; of packed weights
  /// it knows nothing.
  static int64_t arena_bytes_of(const Program& program, const PlanOptions& options = {});

  /// Values that come from outside: bound values, prologue and shared results read by main.
  const std::vector<ValueId>& outside() const { return outside_; }
  /// Points outside value k at a tensor of the planned sizes and strides. Opaque ones are kept.
  void bind(size_t k, const Tensor& tensor);
  /// The same for a value with strides, by address.
  void bind(size_t k, void* data) { windows_[k].point_at(data); }
  /// What value k of `outside` becomes once per set of weights (packing); identity mostly.
  Tensor prepare(size_t k, const Tensor& tensor) const;
  /// Outputs, then updates, each at `data[k]`: contiguous where not `as_they_lie`.
  void bind_outputs(const std::vector<void*>& data);
  /// Runs all steps on this thread, then copies results out that no step has written.
  void run();
  /// The steps alone.
  void run_steps();
  /// Runs and returns the nanoseconds of each step.
  std::vector<double> run_timed(c10::Device device);
  /// Runs, and says when: `at_ns[s]` is when step s began; then when the last one ended, and when
  /// results were copied out. Elsewhere than on the CPU each step is waited for.
  void run_stamped(c10::Device device, std::vector<double>& at_ns);
  bool copies_out() const { return !copies_.empty(); }

  const std::vector<Step>& steps() const { return steps_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  const std::vector<Value>& results() const { return results_; }  // outputs then updates
  std::string text() const;

 private:
  friend class PlanBuilder;
  Plan() = default;
  void execute(Step& step);
  void place_arena();  // where its memory lies now

  std::vector<Step> steps_;
  std::vector<ValueId> outside_;
  std::vector<Window> windows_;  // of outside values, then of fresh results and outputs
  Tensors kept_;                 // opaque outside values as bound
  Tensors held_;                 // fresh results alive now, by window
  std::unordered_map<size_t, std::function<Tensor(const Tensor&)>> prepare_;
  std::vector<std::pair<Tensor, Tensor>> copies_;  // value, output window: neither written directly
                                                   // nor copied by the step that makes it
  std::vector<size_t> output_windows_;
  std::vector<Value> results_;
  std::shared_ptr<ArenaMemory> memory_;
  char* arena_at_ = nullptr;                          // where `in_arena_` lie
  std::vector<std::pair<Window, int64_t>> in_arena_;  // values, and their offsets
  int64_t arena_bytes_ = 0;
  std::vector<std::string> notes_;
};

/// Runs the nodes of one phase with the interpreter. `known` has what they read and gets what
/// they make.
void run_phase(const Program& program, Phase phase, std::unordered_map<ValueId, Tensor>& known);

}  // namespace wide
