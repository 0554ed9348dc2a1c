#pragma once
#include "app/cluster/cluster.h"
#include "app/worker/case_worker.h"

namespace wide {

/// A rank that measures, and what it measures on.
struct MeasuringRank {
  int rank = 0;
  Environment environment;
  std::vector<int> cores;  // the cores it is bound to
  std::string gpu;         // as CUDA_VISIBLE_DEVICES names it; "": none
};

/// Called by rank 0: sends each other rank its place on its machine and waits for its cores, GPU
/// and environment. Throws Error if a rank has other cases than rank 0, if two measuring ranks run
/// different programs, if a rank says nothing for two minutes, or, unless `sharing`, if two measure
/// on the same cores or GPU.
std::vector<MeasuringRank> measuring_ranks(Cluster& cluster, const std::vector<SweepCase>& cases,
                                           bool sharing);

/// Rank 0's proxy for another rank: sends it a case as an index into the rank's own list of
/// `planned` cases. With --each-machine, `cases` repeats this list once per machine.
class RankWorker : public Worker {
 public:
  RankWorker(Cluster& cluster, const MeasuringRank& rank, const std::vector<SweepCase>& cases,
             size_t planned);
  /// `planned`: an element of `cases`.
  void send(const SweepCase& planned) override;
  std::optional<WorkerNews> receive(std::chrono::milliseconds patience) override;
  bool alive() override;
  std::string machine() const override { return machine_; }
  std::string name() const override;
  void stop() override;

 private:
  Cluster& cluster_;
  int rank_;
  std::string machine_;
  const std::vector<SweepCase>& cases_;
  size_t planned_;
  bool stopped_ = false;
};

/// The loop of every other rank: runs the cases that rank 0 sends until rank 0 ends it. Returns the
/// exit code.
int serve_rank(Cluster& cluster, const std::vector<SweepCase>& cases, SweepSettings settings);

}  // namespace wide
