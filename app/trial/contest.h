#pragma once
#include <exception>
#include <set>

#include "app/trial/outcome.h"
#include "app/trial/stages.h"
#include "engine/measure/baselines.h"
#include "engine/model/reduce.h"

// All wide programs are tried here: by `fuse`, by a sweep's cases, and through them by the
// explorer. A contender is what is timed: a baseline or a candidate (a wide program). A trial is
// the stored result of a candidate.
namespace wide {

/// A way to run all N models as one wide program.
struct Candidate {
  std::string name;
  /// Throws Error if it does not apply. Tuning is cut short if a call takes longer than
  /// `far_off_ns`, as another candidate is far faster; 0: none has run yet.
  std::function<std::unique_ptr<CompiledModel>(double far_off_ns)> compile;
  bool masks_shared = false;  // declares that all models draw the same
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
  double flops = 0;                          // of one model's call; 0: counted from the program
  std::vector<std::string> baselines = {};   // baselines to time; empty: all
  std::set<std::string> baselines_off = {};  // baselines not to run; "*": none runs
  std::vector<Baseline> own_baselines =
      {};                        // added to the engine's, or replacing one of the same name
  Reduce reduce = Reduce::none;  // of the timed program; checks are by model
  int min_samples = 10;          // per timing, whatever the budget
  bool keep_results = false;     // return the results of the last check
  /// For long calls, of which only some samples are checked: `expected` computes these samples by
  /// the separate models, `compared` takes them out of a candidate's results. Empty: all samples.
  std::function<Expected()> expected = {};
  std::function<Tensors(const Tensors&)> compared = {};
  MemoryNeed memory = {};
};

/// A trial, and the compiled model that it timed.
struct TriedCandidate {
  Trial trial;
  std::unique_ptr<CompiledModel> model;  // with the ensemble's weights; null if nothing runs
  std::exception_ptr thrown;             // the exception that ended the trial
  Tensors results;                       // set with `keep_results`: outputs, then buffer updates
};

struct ContestResult {
  std::vector<Timing> baselines;
  std::vector<TriedCandidate> trials;  // one for each candidate
  std::vector<std::string> notes;
  double other_load = 0;  // share of the cores that other processes took during timing
  bool disturbed = false;
  CaseSeconds seconds;
};

/// Runs a contest: compiles and checks every candidate, times candidates and baselines interleaved,
/// and checks each candidate again. A candidate that fails becomes a trial with that status; an
/// error that concerns all is thrown. `stages` is called at every step, and may throw to end the
/// contest.
ContestResult run_contest(const Contest& contest, Stages& stages);

/// Fills in the speedup over the baselines and the verdict of a trial with status ok.
void compare(Trial& trial, const std::vector<Timing>& baselines, bool disturbed, uint64_t seed);

/// The tensors of an ensemble that are inputs (`inputs`), or the weights.
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
