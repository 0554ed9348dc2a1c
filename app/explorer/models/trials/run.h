#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "app/explorer/models/jobs.h"
#include "app/sweep/session.h"
#include "data/preset.h"

namespace wide {

/// The user's choices for a sweep: those of a preset, changed by hand.
struct RunChoices {
  std::string preset, name;
  std::set<std::string> targets;
  std::string n;                  // "4,8,16"; empty: each target's own
  std::vector<std::string> axes;  // "linear.D=256,512"
  std::set<std::string> modes, dtypes, devices, phases, baselines;  // baselines empty: all
  double budget_s = 1.5;
  double timeout_s = 0;  // after which a silent trial counts as hanging; 0: by budget and work
  std::string unread;    // a line about seconds that were typed and are no number; or ""
  bool operator==(const RunChoices&) const = default;
};

/// The baselines that can run on one of these devices, in the order of `baseline_names`.
std::vector<std::string> baselines_on(const std::set<std::string>& devices);
/// The new `RunChoices::baselines` after the user has turned on exactly `on` among the baselines
/// that `baselines_on` offers. Baselines that are not offered stay as chosen.
std::set<std::string> baselines_with(const RunChoices& choices, const std::set<std::string>& on);

/// Takes seconds that were typed for `what`, no text as 0. Returns "", or a line about a text that
/// is no number, and then leaves `seconds` as it is.
std::string take_seconds(const std::string& what, const std::string& text, double* seconds);

/// The command line that runs the same sweep.
std::string command_of(const RunChoices& choices);

/// What would run, and its estimated time.
struct RunEstimate {
  std::vector<SweepCase> cases;
  int64_t trials = 0;
  double seconds = 0;
  std::string error;  // one line: why nothing can run
};
RunEstimate estimate_of(const RunChoices& choices);

enum class RunState { idle, preparing, running, paused, cancelling, ended };
const char* to_string(RunState state);

/// The share of one target.
struct RunShare {
  size_t done = 0, total = 0;
  int incorrect = 0, failed = 0;
};

struct RunProgress {
  RunState state = RunState::idle;
  std::string name, doing, error, ended;  // ended: "complete", "cancelled"
  std::string busy;            // which other programs used the machine at the start; or ""
  std::string disturbed;       // how many cases were disturbed, and what to do; or ""
  int64_t sweep = 0;           // its number in the store
  size_t done = 0, total = 0;  // cases
  double elapsed_s = 0, left_s = 0;
  bool timing = false;  // a trial is being timed now
  std::vector<std::pair<std::string, RunShare>> targets;
};

/// What is left as text, with a duration if it is known.
std::string left_text(const RunProgress& progress);

/// Runs a sweep on a thread of its own; its trials run in the worker process. One at a time.
class RunModel {
 public:
  RunModel(Jobs& jobs, std::string db);
  ~RunModel();

  // ---- what to run ----
  const std::vector<Preset>& presets() const { return presets_; }
  const RunChoices& choices() const { return choices_; }
  /// Starts a job that estimates the time of the sweep.
  void set_choices(RunChoices choices);
  void take_preset(const std::string& name);
  const RunEstimate& estimate() const { return estimate_; }
  /// Whether a job is estimating the sweep, to show it or to run it.
  bool estimating() const;
  /// Estimated seconds of a preset's sweep. The first call starts a job that estimates them; until
  /// it has ended the answer is 0.
  double preset_seconds(const std::string& name);

  // ---- running it ----
  /// Plans the sweep in a job; the sweep starts when the job's result is delivered. Where nothing
  /// can run, estimate() then says why.
  void start();
  /// Continues an interrupted or cancelled sweep of the store, or measures its disturbed cases
  /// again. Reading the store is a job, as for start().
  void resume(int64_t sweep, Resume how = Resume::missing);
  void pause();  // takes effect after the running case
  void go_on();
  void cancel();
  RunProgress progress() const;
  bool active() const;
  /// Increases with every stored case.
  uint64_t stored() const { return stored_; }

  /// Frames drawn by the window, to find out whether it drew while a case was timed.
  std::atomic<int64_t> frames{0};
  std::function<void()> wake = [] {};

 private:
  class Watcher;
  /// For a job: launches the sweep on the window's thread, unless another one runs by then.
  Jobs::Result launched(SweepRequest request);
  void launch(SweepRequest request);
  void work(SweepRequest request);

  Jobs& jobs_;
  std::string db_;
  std::vector<Preset> presets_;
  RunChoices choices_;
  RunEstimate estimate_;
  std::map<std::string, double> preset_seconds_;  // 0: a job estimates it

  mutable std::mutex mutex_;
  std::condition_variable unpaused_;
  RunProgress progress_;
  bool pause_ = false, cancel_ = false;
  SweepSession* session_ = nullptr;
  std::atomic<uint64_t> stored_{0};
  double begun_s_ = 0;
  std::thread thread_;
};

}  // namespace wide
