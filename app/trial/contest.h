#pragma once
#include <exception>
#include <set>

#include "app/trial/outcome.h"
#include "app/trial/stages.h"
#include "engine/measure/baselines.h"
#include "engine/model/reduce.h"

// The one way that wide programs are tried: by `fuse`, by a sweep's cases, and through them by the
// explorer. A contender is what is timed: a baseline, or a candidate, which is a wide way. A trial
// is what came of a candidate, as it is stored.
namespace wide {

/// A wide way of running all N models.
struct Candidate {
  std::string name;
  /// Throws Error where it does not apply. What takes longer than `far_off_ns` a call (0: not
  /// known) is too slow to be worth much tuning.
  std::function<std::unique_ptr<CompiledModel>(double far_off_ns)> compile;
  bool masks_shared = false;  // says that all models draw the same; then they must
};

struct Contest {
  const Network& network;
  const Program& single;  // Program(1) of it
  const Ensemble& ensemble;
  std::vector<Candidate> candidates = {};
  c10::Device device = c10::kCPU;
  at::ScalarType dtype = at::kFloat;
  std::string phase = "forward";
  double tolerance = 0;
  double budget_s = 1.5;  // per contender
  uint64_t seed = 0;
  int threads = 0;
  double flops = 0;                          // of one model's call; 0: they are counted
  std::vector<std::string> baselines = {};   // by name; empty: all
  std::set<std::string> baselines_off = {};  // of these: not to be run; "*": none at all
  std::vector<Baseline> own_baselines = {};  // beside the engine's, or in place of one
  Reduce reduce = Reduce::none;              // of what is timed: every model's own is checked
  int min_samples = 10;                      // of a timing, whatever the budget
  bool keep_results = false;                 // of the last check, for whoever writes them
  /// What is expected where that is not computed as of any network; of `compared` of the results.
  std::function<Expected()> expected = {};
  std::function<Tensors(const Tensors&)> compared = {};  // empty: all
  MemoryNeed memory = {};
};

/// A trial and what runs it.
struct TriedCandidate {
  Trial trial;
  std::unique_ptr<CompiledModel> model;  // with the ensemble's weights; null: none that runs
  std::exception_ptr thrown;             // what ended it, in full
  Tensors results;                       // with `keep_results`: outputs, then buffer updates
};

struct ContestResult {
  std::vector<Timing> baselines;
  std::vector<TriedCandidate> trials;  // by candidate
  std::vector<std::string> notes;
  double other_load = 0;  // share of the cores that other processes took during timing
  bool disturbed = false;
  CaseSeconds seconds;
};

/// Compiles and checks every candidate, times all of them and the baselines interleaved, and checks
/// each again. A candidate that fails is a result and leaves the others alone; what concerns all of
/// them is thrown. `stages` is told what is going on; what it throws ends the contest.
ContestResult hold(const Contest& contest, Stages& stages);

/// The speedup and verdict of a trial that is ok, over the baselines that there are.
void compare(Trial& trial, const std::vector<Timing>& baselines, bool disturbed, uint64_t seed);

/// The tensors of an ensemble that are inputs, or that are weights.
Tensors pick(const Network& network, const Ensemble& ensemble, bool inputs);

/// Adds the time until the end of its scope to `seconds`.
class Clocked {
 public:
  explicit Clocked(double* seconds);
  ~Clocked();
  Clocked(const Clocked&) = delete;
  Clocked& operator=(const Clocked&) = delete;

 private:
  double* seconds_;
  double begun_ns_;
};

}  // namespace wide
