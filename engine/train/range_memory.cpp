#include "engine/train/range_memory.h"

#include <ATen/ATen.h>
#include <malloc.h>

#include <exception>

#include "engine/compile.h"
#include "engine/error.h"
#include "engine/lower/plan/uses.h"
#include "engine/record/dry/dry.h"
#include "engine/record/dry/recording_budget.h"
#include "engine/train/trainer_impl.h"

namespace wide {
namespace {

/// What a program hands over, and what is taken for it from batches of each model's own.
int64_t bytes_besides_arena(const Program& program, const PlannedSize& p) {
  int64_t bytes = 0;
  for (const ValueId id : results_of(program)) bytes += program.value(id).bytes();
  for (const size_t at : p.columns)
    if (!p.shared[at]) bytes += program.value(program.bound[at]).bytes();
  return bytes;
}

/// Tensors of a megabyte and more lie outside the heap while one of these lives, and end with their
/// memory: glibc's heap keeps what aligned tensors leave, in pieces that the next ones do not fit
/// into (before 2.38), and a limit of the process counts it (`ulimit -d`). Afterwards the bounds
/// are what glibc comes to by itself (mallopt(3)): no step maps memory anew.
class OutsideTheHeap {
 public:
#ifdef __GLIBC__
  OutsideTheHeap() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }
  ~OutsideTheHeap() {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    malloc_trim(0);
  }
#else
  OutsideTheHeap() {}
#endif
  OutsideTheHeap(const OutsideTheHeap&) = delete;
  OutsideTheHeap& operator=(const OutsideTheHeap&) = delete;
};

/// What `recorded` returns, run so that no call has elements but while it is made, where it can.
template <class Recorded>
auto without_elements(const Recorded& recorded) {
  try {
    const DryRecording dry(Shapes::of_zeros);
    return recorded();
  } catch (const std::exception&) {  // an operator that refuses zeros
  }
  return recorded();
}

}  // namespace

/// What one thread needs for its range besides the models.
int64_t Trainer::Impl::bytes_of_range(const PlannedSize& p, const Executor& executor) {
  return executor.arena_bytes() + bytes_besides_arena(executor.program()->wide.program, p);
}

Recomputed Trainer::Impl::recomputed(const PlannedSize& p, const Executor& executor) {
  for (const auto& [size, range] : p.programs)
    if (range.program == executor.program()) return range.recomputed;
  return {};
}

/// Whether a step of `n` models might take more than it may, guessed from all that one makes on its
/// way forward, and as much on the way back.
bool Trainer::Impl::may_be_short(const PlannedSize& p, int64_t n) const {
  if (!p.step || options.memory_limit <= 0) return false;
  int64_t bytes = 0;
  for (const Value& v : p.single.values) bytes += v.bytes();
  return 2 * n * bytes * threads > options.memory_limit;
}

/// The forward pass of one model, of a step with its loss. A recording takes as much as all of its
/// calls: where that is half of what a step may take, no call has elements but while it is made.
Program Trainer::Impl::recorded_single(const PlannedSize& p, const Ensemble& some) const {
  const OutsideTheHeap apart;
  const auto recorded = [&] { return wide::record_single(p.form.network, some, p.step); };
  if (options.memory_limit <= 0) return recorded();
  {
    RecordingBudget budget(options.memory_limit / 2);
    try {
      return recorded();
    } catch (const std::exception&) {
      if (!budget.exceeded()) throw;
    }
  }
  return without_elements(recorded);
}

/// Where memory may be short recording has no elements, as it would keep all that a step makes, and
/// what is recorded is brought to fit.
PlannedRange Trainer::Impl::planned_range(const PlannedSize& p, int64_t at_a_time,
                                          const Ensemble& some) const {
  const OutsideTheHeap apart;
  const auto recorded = [&] {
    RangeProgram range{p.widening->widen_as_for(at_a_time, some), {}};
    range.passes = run_passes(range.wide.program);
    return range;
  };
  const bool short_of_memory = may_be_short(p, some.n);
  RangeProgram range = short_of_memory ? without_elements(recorded) : recorded();
  if (p.step && !p.gradients->differentiable()[0])
    throw Unsupported(reason("train", "loss", "one that depends on no trained parameter",
                             "something to differentiate", "to freeze less"));
  Recomputed recomputed;
  if (short_of_memory)
    recomputed = fit_arena(
        range, options.memory_limit / threads - bytes_besides_arena(range.wide.program, p));
  return {std::make_shared<const RangeProgram>(std::move(range)), recomputed};
}

RangeMemory& Trainer::Impl::memory(PlannedSize& p, const Executor& executor, int thread) const {
  RangeMemory& m = p.memory[static_cast<size_t>(thread)];
  if (m.models >= executor.models_at_a_time()) return m;
  m = {executor.models_at_a_time(), Tensors(p.form.network.tensors.size()), {}};
  const Program& program = executor.program()->wide.program;
  for (const size_t at : p.columns)
    if (!p.shared[at]) {
      const Value& v = program.value(program.bound[at]);
      m.taken[at] = at::empty(v.sizes, at::TensorOptions(v.dtype));
    }
  for (const ValueId id : results_of(program))
    m.results.push_back(
        at::empty(program.value(id).sizes, at::TensorOptions(program.value(id).dtype)));
  return m;
}

}  // namespace wide
