#pragma once
#include "data/reports/sweep/report.h"
#include "engine/compile.h"
#include "engine/measure/roofline.h"
#include "engine/widen/target.h"

namespace wide {

/// Adds work, shares of the machine's peaks and explanations to a case's times.
class CaseJudge {
 public:
  /// `flops`: of one model's call if the target knows them; 0: counted from the program.
  CaseJudge(const Program& single, const Ensemble& ensemble, c10::Device device,
            at::ScalarType dtype, int threads, double flops);

  /// Work, shares of this machine's peaks, and why it is no faster.
  void baseline(Timing& timing) const;
  void candidate(Timing& timing, const CompiledModel& model) const;

 private:
  int64_t n_, nodes_;
  at::ScalarType dtype_;
  int threads_;
  Peaks peaks_;
  WorkLoad load_;
};

/// Bytes of a compiled ensemble: its weights and inputs, packed weights and planned memory, and
/// what the first call, `run`, allocates beside them. Comparable with what `measure` counts at a
/// baseline's first call, which creates its models.
int64_t candidate_bytes(const Ensemble& ensemble, const CompiledModel& model, c10::Device device,
                        const std::function<void()>& run);

/// A call as a user with separate tensors makes it: stacks the inputs, runs, splits the results.
/// `packed`: memory for the stacked inputs, shared by all candidates of a case.
std::function<void()> packing_call(CompiledModel& model, const Ensemble& ensemble,
                                   const Network& network, const std::shared_ptr<Tensors>& packed);

}  // namespace wide
