#pragma once
#include "app/cluster/cluster.h"
#include "app/worker/case_worker.h"

namespace wide {

/// A rank that measures, and what it measures on.
struct MeasuringRank {
  int rank = 0;
  Environment environment;
  std::vector<int> cores;  // that it is bound to
  std::string gpu;         // as CUDA_VISIBLE_DEVICES names it; "": none
};

/// Of rank 0: tells all others their places on their machines, and waits until they have said what
/// they are. Throws Error where they have not the same plan, and where two of them measure on the
/// same cores or GPU, unless `sharing`.
std::vector<MeasuringRank> measuring_ranks(Cluster& cluster, const std::vector<PlannedCase>& cases,
                                           bool sharing);

/// Rank 0's side of a rank: gives it the numbers of cases in its plan of `planned` ones, which
/// `cases` repeats where each machine measures all.
class RankWorker : public Worker {
 public:
  RankWorker(Cluster& cluster, const MeasuringRank& rank, const std::vector<PlannedCase>& cases,
             size_t planned);
  void send(const PlannedCase& planned) override;
  std::optional<WorkerNews> receive(std::chrono::milliseconds patience) override;
  bool alive() override;
  std::string machine() const override { return machine_; }
  std::string name() const override;
  void stop() override;

 private:
  Cluster& cluster_;
  int rank_;
  std::string machine_;
  const std::vector<PlannedCase>& cases_;
  size_t planned_;
  bool stopped_ = false;
};

/// The other side: runs cases until rank 0 says that it is over. Returns the exit code.
int serve_rank(Cluster& cluster, const std::vector<PlannedCase>& cases, SweepSettings settings);

}  // namespace wide
