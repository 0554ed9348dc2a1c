#pragma once
#include "data/reports/sweep/report.h"
#include "engine/compile.h"
#include "engine/measure/roofline.h"
#include "engine/widen/target.h"

namespace wide {

/// What is said of a case's times beside the times themselves.
class CaseJudge {
 public:
  /// `flops`: of one model's call where the target knows them, else 0: they are counted.
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

/// Bytes of a compiled ensemble: its weights and inputs, what the model packed and planned, and
/// what the first call, `run`, takes beside it. What `measure` counts at the first call of a
/// baseline, which makes its models, is the same.
int64_t candidate_bytes(const Ensemble& ensemble, const CompiledModel& model, c10::Device device,
                        const std::function<void()>& run);

/// A call for a user with separate tensors: stacks the inputs, runs, splits the results. `packed`:
/// where the inputs are stacked, call after call, by all candidates of a case.
std::function<void()> packing_call(CompiledModel& model, const Ensemble& ensemble,
                                   const Network& network, const std::shared_ptr<Tensors>& packed);

}  // namespace wide
