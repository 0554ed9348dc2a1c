#pragma once
#include "app/sandbox/group.h"
#include "app/train/prepare.h"
#include "app/train/run/state.h"
#include "data/store/runs/run_request.h"

namespace wide {

class Recorder;

/// Runs the steps and evaluations, and decides which models go on.
class Loop {
 public:
  /// `others`: the ranks that train the other models, met at every evaluation; nullptr: there are
  /// none.
  Loop(const Prepared& run, Trainer& trainer, TrainState& state, Recorder& recorder,
       RankGroup* others = nullptr);

  /// Trains until the last step, until no model runs any more, or until it is cancelled. Returns
  /// false if it was cancelled.
  bool run();
  /// Nanoseconds of the first step, recording and planning included; 0 if no step was made.
  double first_call_ns() const { return first_call_ns_; }

 private:
  /// A model as pruning ranks it: its number among all models, and its best value.
  struct Standing {
    int64_t model = 0;
    std::optional<double> best;
  };

  void make_step();
  bool goes_on() const { return others_ ? !over_ : !trainer_.running().empty(); }
  bool rung_is_next() const;
  std::vector<Standing> standings() const;
  /// Exchanges the standings of models with the other ranks.
  void gather_standings();
  void note(const Batch& batch, const StepResult& result);
  void skip(int64_t model);
  void look();
  void keep_best(const std::vector<int64_t>& improved);
  bool better(double value, double best) const;
  void stop(int64_t model, const std::string& status, const std::string& what);
  void prune();
  /// Does what the requests ask. Returns true if the whole run is to stop.
  bool do_what_is_asked();
  /// Does one request, whose models are numbered as in this rank.
  void do_one(const RunRequest& request);
  /// Whether this rank reports events that concern no single model.
  bool leads() const { return !others_ || others_->rank() == 0; }
  void set_hyperparameter(const RunRequest& request);
  void copy_model(const RunRequest& request);
  void say(int64_t model, const std::string& what);
  /// Whether some running model, of any rank, makes its last step now.
  bool some_end() const;
  /// Ends models that have fewer steps than the run and have made them.
  void finish();
  [[noreturn]] void refuse(const StepCheck& check) const;
  /// Notes the differences that --check found to be no errors.
  void note_differences(const StepCheck& check);

  const Prepared& run_;
  Trainer& trainer_;
  TrainState& state_;
  Recorder& recorder_;
  RankGroup* others_;
  std::vector<Standing> standings_;  // of all running models, before pruning
  bool over_ = false;                // no model of any rank runs any more
  int64_t over_since_ = 0;           // the step at which the last one ended
  int64_t prune_factor_ = 0, next_rung_ = 0;
  double first_call_ns_ = 0;
};

}  // namespace wide
