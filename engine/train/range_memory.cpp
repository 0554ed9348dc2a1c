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

/// Bytes of a program's results and of the batches gathered for it.
int64_t bytes_besides_arena(const Program& program, const PlannedSize& p) {
  int64_t bytes = 0;
  for (const ValueId id : program.results()) bytes += program.value(id).bytes();
  for (const size_t at : p.columns)
    if (!p.shared[at]) bytes += program.value(program.bound[at]).bytes();
  return bytes;
}

/// While it exists, tensors of a megabyte or more are mapped outside the heap, and unmapped when
/// freed: before 2.38 glibc's heap keeps fragments of aligned tensors, which later ones do not fit
/// into and `ulimit -d` counts. Afterwards the thresholds are those that glibc would reach by
/// itself (mallopt(3)), so that steps map no memory.
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

/// Calls `recorded` in a dry recording, with memory for one call, or, if that fails, normally.
template <class Recorded>
auto without_elements(const Recorded& recorded) {
  try {
    const DryRecording dry(Shapes::of_zeros);
    return recorded();
  } catch (const std::exception&) {  // an operator refuses zeros
  }
  return recorded();
}

}  // namespace

/// The memory of one thread for its range, without the models.
int64_t Trainer::Impl::bytes_of_range(const PlannedSize& p, const Executor& executor) {
  return executor.arena_bytes() + bytes_besides_arena(executor.program()->wide.program, p);
}

Recomputed Trainer::Impl::recomputed(const PlannedSize& p, const Executor& executor) {
  for (const auto& [size, range] : p.programs)
    if (range.program == executor.program()) return range.recomputed;
  return {};
}

/// Whether a step of `n` models per thread might exceed `memory_limit`, assuming that the backward
/// pass makes as many bytes as the forward pass.
bool Trainer::Impl::may_be_short(const PlannedSize& p, int64_t n) const {
  if (!p.step || options.memory_limit <= 0) return false;
  int64_t bytes = 0;
  for (const Value& v : p.single.values) bytes += v.bytes();
  return 2 * n * bytes * threads > options.memory_limit;
}

/// The forward pass of one model, of a step with its loss. A recording keeps the results of all
/// calls: if that exceeds half of a step's limit, records dry.
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

/// If memory may be short, records dry, as a recording would keep all results of a step, and
/// recomputes values so that the program fits.
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
  for (const ValueId id : program.results())
    m.results.push_back(
        at::empty(program.value(id).sizes, at::TensorOptions(program.value(id).dtype)));
  return m;
}

}  // namespace wide
