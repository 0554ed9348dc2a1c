#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/machine/environment.h"
#include "engine/check/check.h"
#include "engine/measure/measure.h"
#include "engine/widen/widen.h"

namespace wide {

/// By way of widening: the number of nodes, or the share of the time.
using Ways = std::map<Way, double>;

struct Fallback {
  int32_t node = 0;
  std::string op, reason;
};

/// Speedups over the loop and over the best correct baseline.
struct Speedup {
  std::optional<Interval> vs_loop;  // none if the loop was not timed
  Interval vs_best;
  std::string best_baseline;
};

/// One fusion: N models of one network.
struct FuseResult {
  int64_t n = 0;
  std::map<Way, int64_t> coverage;
  Ways coverage_time;  // empty unless requested
  std::vector<Fallback> fallbacks;
  std::vector<Timing> results;
  std::string chosen;  // the fastest correct candidate
  std::optional<Speedup> speedup;
  Correctness correctness;
  double first_call_ns = 0;
  int64_t wide_bytes = 0, separate_bytes = 0;
  std::vector<PassRecord> passes;
  std::vector<StepCost> steps;  // with --explain
  /// A call of the loop and one of the wide program, with --explain or --trace, at the largest N.
  std::vector<TimelineCall> timeline;
  double other_load = 0;  // cores' share of other processes during timing
  bool disturbed = false;
  std::vector<std::string> notes;
  std::vector<CoverageItem> items;
  std::string plan;
};

/// What the results of several Ns show together.
struct AlongN {
  std::optional<int64_t> crossover;  // as of a sweep, below
  int64_t best_n = 0;                // N with the highest throughput; 0: no correct result
  double models_per_s = 0;           // throughput at that N: models times calls in a second
};

/// Facts about the checkpoints that were loaded.
struct WeightsLoaded {
  int64_t checkpoints = 0, file_bytes = 0, packed_bytes = 0;
  int64_t equal_bytes = 0;  // that sharing equal weights saves, or would save
  double load_ns = 0;
};

struct FuseReport {
  std::string model, device, dtype, mode;
  std::string reduce;    // "mean", "std", "vote"; empty: every model's own outputs
  bool trusted = false;  // the network's file could call every operator of LibTorch
  Environment environment;
  std::optional<WeightsLoaded> weights;
  int64_t largest_n = 0;  // that fits into memory, by estimate; 0: not estimated
  std::optional<AlongN> along_n;
  std::vector<FuseResult> curve;  // ascending n; one entry for one N
};

/// The status words of reports; `interrupted`: it began, and no end was recorded.
enum class Status {
  ok,
  incorrect,
  unsupported,
  oom,
  timeout,
  crashed,
  cancelled,
  interrupted,
  skipped,  // not run: the budget is too small
};
const char* to_string(Status status);
/// Throws Error for any other word.
Status status_of(const std::string& word);

/// The meaning of a trial's status. Summaries, exit codes, JUnit files and the explorer count by
/// it.
enum class Ending {
  right,
  incorrect,
  failed,       // crashed, no heartbeat for too long, or out of memory
  left_out,     // unsupported, or beyond the budget
  not_finished  // cancelled or interrupted: says nothing about the strategy
};
Ending ending_of(Status status);
/// The ending for a status in the store; an unknown word counts as a failure.
Ending ending_of(const std::string& status);

/// One strategy in a case.
struct Trial {
  std::string strategy;
  Status status = Status::ok;
  std::string reason;
  bool chosen = false;  // the strategy that the engine chooses by itself
  Timing timing;
  std::optional<Speedup> speedup;  // of correct trials only
  std::string verdict;             // against the best baseline
  std::optional<Correctness> correctness;
  int64_t needed_bytes = 0;  // estimate, for a trial that may not fit; 0: not estimated
};

/// Where the time of a case went. `total` includes the worker's start, and the time of trials that
/// ended the worker.
struct CaseSeconds {
  double setup = 0;      // recording one model, making data and expected results
  double compile = 0;    // all strategies, with tuning and first call
  double check = 0;      // checks before and after timing
  double baselines = 0;  // making and checking baselines
  double timing = 0;
  double total = 0;
};

/// A baseline of a case that was not timed, and why.
struct MissingBaseline {
  std::string name;
  Status status = Status::unsupported;
  std::string reason;
  int64_t needed_bytes = 0;  // by estimate; 0: not known
};

/// Work of one call of a network in one of its forms: as users write it ("naive"), as an expert
/// would write it by hand ("optimised"), and as this program runs it ("compiled").
struct FormWork {
  std::string form;
  int64_t operators = 0;  // calls of operators, without views
  double bytes = 0;       // that these calls read and write
  double passes = 0;      // bytes divided by those of all inputs and outputs
  double flops = 0;
};

struct Case {
  std::string target, shape, dtype, device, mode, phase = "forward";
  int64_t n = 0;
  std::string machine;         // `machine_name` of where it was measured; "": unknown
  double other_load = 0;       // share of the cores that other processes took while it was timed
  bool disturbed = false;      // that share was too large for the times to be trusted
  int64_t window_frames = -1;  // frames that the explorer drew meanwhile; -1: no window
  CaseSeconds seconds;
  std::vector<std::string> notes;  // on baselines that are missing
  std::vector<Timing> baselines;
  std::vector<MissingBaseline> missing;  // baselines that were known not to run
  std::vector<FormWork> work;            // by form, if the target has an optimised one
  std::string explanation;               // what each form saves over the one before it
  std::vector<Trial> trials;
};

/// The smallest N from which on every measured N is FASTER than the best baseline; null if none.
struct Crossover {
  std::string target, shape, dtype, device, mode, phase, strategy;
  std::string machine;  // or its hardware, where there are several: as `Apart` names them
  std::optional<int64_t> n;
};

struct SweepReport {
  std::string id, name, command, state = "complete";  // "cancelled"
  Environment environment;
  std::vector<Environment> machines;  // that cases were measured on besides that one
  std::vector<std::string> changes;   // of the environment while it ran, one line each
  std::vector<Case> cases;
};

/// The environment of the machine that a case was measured on.
const Environment& environment_of(const SweepReport& report, const Case& c);

/// Whether a strategy was right and FASTER at an N where it applies.
struct VerdictAt {
  int64_t n = 0;
  bool faster = false;
  bool disturbed = false;  // it was right, but other programs made its verdict UNCLEAR
};

/// One strategy over all cases that differ in N only; `of.n` is unused.
struct VerdictCurve {
  Crossover of;
  std::vector<VerdictAt> points;  // by N
};

/// A curve per strategy and what `Apart` tells apart.
std::vector<VerdictCurve> verdict_curves(const std::vector<Case>& cases);
std::optional<int64_t> crossover_of(const std::vector<VerdictAt>& points);
/// The crossovers of all curves.
std::vector<Crossover> crossovers(const std::vector<Case>& cases);

/// Verdict of a fusion's wide program over the best baseline; "" if there is no speedup.
std::string verdict_of(const FuseResult& result);

/// Crossover and best N of a fusion's results along N.
AlongN along_n(const std::vector<FuseResult>& curve);

/// The speedups of a candidate. The best baseline has the smallest median over the rounds in which
/// the candidate was timed too, as the ratios are of those rounds.
Speedup speedup_of(const std::vector<Timing>& baselines, const Timing& candidate, uint64_t seed);

/// "3 of 12 cases are disturbed: ...", with advice; "" if none are.
std::string disturbed_text(const std::vector<Case>& cases);

/// Numbers as tables show them: "3.62x [3.55, 3.70]", "2.1e-07"; "" if unknown.
std::string speedup_text(const std::optional<Interval>& interval);
std::string error_text(double relative);

}  // namespace wide
