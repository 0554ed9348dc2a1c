#include "app/trial/judge.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "data/machine/peaks.h"
#include "engine/device.h"
#include "engine/model/packing.h"

namespace wide {

CaseJudge::CaseJudge(const Program& single, const Ensemble& ensemble, c10::Device device,
                     at::ScalarType dtype, int threads, double flops)
    : n_(ensemble.n),
      nodes_(static_cast<int64_t>(single.nodes.size())),
      dtype_(dtype),
      threads_(threads > 0 ? threads : at::get_num_threads()),
      peaks_(machine_peaks(device, threads_)),
      load_(count_work(single, ensemble.n, ensemble.shared)) {
  if (flops > 0) load_.flops = flops * static_cast<double>(n_);
}

void CaseJudge::baseline(Timing& timing) const {
  const bool together = timing.name == "vmap";
  timing.steps = together ? nodes_ : n_ * nodes_;
  const auto side_by_side = static_cast<double>(std::min<int64_t>(threads_, n_));
  judge(timing, load_, peaks_, dtype_, timing.name == "threads" ? side_by_side : 1);
}

void CaseJudge::candidate(Timing& timing, const CompiledModel& model) const {
  timing.steps = model.steps();
  timing.computed_flops = model.computed_flops();
  judge(timing, load_, peaks_, dtype_, std::min(threads_, model.ranges()));
}

int64_t candidate_bytes(const Ensemble& ensemble, const CompiledModel& model, c10::Device device,
                        const std::function<void()>& run) {
  const int64_t call = count_peak_bytes(device, run);
  int64_t held = model.bytes();
  for (const Tensor& t : ensemble.tensors) held += static_cast<int64_t>(t.nbytes());
  return held + call;
}

std::function<void()> packing_call(CompiledModel& model, const Ensemble& ensemble,
                                   const Network& network, const std::shared_ptr<Tensors>& packed) {
  std::vector<Tensors> separate;
  const std::vector<size_t> inputs = network.indices(true);
  std::vector<bool> shared;
  for (const size_t k : inputs) shared.push_back(ensemble.shared[k]);
  for (int64_t i = 0; i < ensemble.n; ++i) {
    const Tensors own = ensemble.model(i);  // views: as slow to copy as others
    Tensors& mine = separate.emplace_back();
    for (const size_t k : inputs) mine.push_back(own[k]);
  }
  return [&model, separate, shared, packed, n = ensemble.n] {
    *packed = pack(separate, shared, *packed);
    unpack(model.run(*packed), n);
  };
}

}  // namespace wide
