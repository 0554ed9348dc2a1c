#pragma once
#include <chrono>

#include "app/cell/group.h"
#include "app/train/prepare.h"
#include "app/train/run/state.h"
#include "data/store/runs/run_request.h"

namespace wide {

/// What watches a run: prints, logs, stores, saves.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void evaluated(const Evaluated& /*row*/) {}
  virtual void happened(const Event& /*event*/) {}
  /// After an evaluation: what others ask of the run; may wait for it.
  virtual std::vector<RunRequest> asked() { return {}; }
  virtual void refused(const RunRequest& /*request*/, const std::string& /*why*/) {}
  /// Between two steps; `evaluated`: right after an evaluation. Saves when it is time to.
  virtual void stepped(bool /*evaluated*/) {}
};

/// Steps, evaluations, and which models go on.
class Loop {
 public:
  /// `others`: ranks that train the other models, and meet at every evaluation; nullptr: none.
  Loop(const Prepared& run, Trainer& trainer, TrainState& state, RunObserver& observer,
       RankGroup* others = nullptr);

  /// Until the last step, until no model runs, or until it is cancelled: true where it came to its
  /// end.
  bool run();
  /// Nanoseconds that the first step took, recording and planning included; 0: none was made.
  double first_call_ns() const { return first_call_ns_; }

 private:
  /// A model in the order in which pruning sees it: its number among all, and its best value.
  struct Standing {
    int64_t model = 0;
    std::optional<double> best;
  };

  void make_step();
  bool goes_on() const { return others_ ? !over_ : !trainer_.running().empty(); }
  bool rung_is_next() const;
  std::vector<Standing> standings() const;
  /// Tells the others where these models stand, and hears it of theirs.
  void meet();
  void note(const Batch& batch, const StepResult& result);
  void skip(int64_t model);
  void look();
  void keep_best(const std::vector<int64_t>& improved);
  bool better(double value, double best) const;
  void stop(int64_t model, const std::string& status, const std::string& what);
  void prune();
  /// Does what others ask; true where the whole run is to stop.
  bool do_what_is_asked();
  /// Of a request that names models as these are numbered here.
  void do_one(const RunRequest& request);
  /// Of several ranks, the one that says what is of no single model.
  bool leads() const { return !others_ || others_->rank() == 0; }
  void set_hyperparameter(const RunRequest& request);
  void copy_model(const RunRequest& request);
  void say(int64_t model, const std::string& what);
  /// Whether a model that runs makes its last step now, the others' too.
  bool some_end() const;
  /// Stops models that have made all their steps before the run has.
  void finish();
  [[noreturn]] void refuse(const StepCheck& check) const;
  /// Writes down the differences that were no errors.
  void note_differences(const StepCheck& check);

  const Prepared& run_;
  Trainer& trainer_;
  TrainState& state_;
  RunObserver& observer_;
  RankGroup* others_;
  std::vector<Standing> standings_;  // of all that run, where pruning is next
  bool over_ = false;                // of the others: no model of any runs
  int64_t over_since_ = 0;           // the step at which the last one ended
  int64_t prune_factor_ = 0, next_rung_ = 0;
  double first_call_ns_ = 0;
};

}  // namespace wide
