#pragma once
#include "app/fuse/subject.h"
#include "data/reports/report.h"
#include "engine/measure/baselines.h"
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
};

struct FuseOutcome {
  FuseResult result;
  Tensors outputs;  // [N, ...] each, or reduced; without buffer updates
  int64_t shared_nodes = 0;
};

/// Fuses n models of the subject, checks, times against the baselines, and checks again.
FuseOutcome fuse(Subject& subject, int64_t n, const FuseOptions& options);

/// Baselines of a case that give right answers, ready to be timed. A wrong or missing one is noted.
/// `disagreement`, where given, says why nothing can be believed when the loop, which is the
/// separate models themselves, is wrong. `wanted`, where given, is asked before each is run for the
/// first time.
std::vector<Baseline> honest_baselines(const Network& network, const Ensemble& ensemble,
                                       int threads, const Tensors& expected, double tolerance,
                                       std::vector<std::string>* notes, std::string* disagreement,
                                       const std::function<bool(const std::string&)>& wanted = {});

/// A contender whose calls end early when the user presses Ctrl-C.
Contender cancellable(std::string name, std::string kind, c10::Device device,
                      std::function<void()> call);

/// The tensors of an ensemble that are inputs, or that are weights.
Tensors pick(const Network& network, const Ensemble& ensemble, bool inputs);

/// Bytes of N separate models: their weights, and one model's activations at a time.
int64_t separate_bytes(const Program& single, int64_t n);

}  // namespace wide
