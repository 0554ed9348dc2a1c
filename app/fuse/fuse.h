#pragma once
#include "app/fuse/subject.h"
#include "app/trial/peer.h"
#include "data/reports/sweep/report.h"
#include "engine/model/reduce.h"

namespace wide {

struct FuseOptions {
  CompileOptions compile;
  double budget_s = 1.5;  // per contender
  uint64_t seed = 0;
  int threads = 0;
  Reduce reduce = Reduce::none;
  bool explain = false;  // also the steps of the wide program
  bool coverage_time = false;
  bool timeline = false;  // record one call of the loop and one of the wide program
  PeerSettings peer;      // its `python` is "" if torch.compile is not to be measured
};

struct FuseOutcome {
  FuseResult result;
  Tensors outputs;  // each [N, ...], or reduced over the models; without buffer updates
  int64_t shared_nodes = 0;
};

/// Fuses n models of the subject, checks the wide program against the separate models and times it.
FuseOutcome fuse(Subject& subject, int64_t n, const FuseOptions& options);

}  // namespace wide
