#pragma once
#include "app/train/outputs/report.h"
#include "app/train/outputs/row_log.h"
#include "app/train/run/saving.h"
#include "app/train/run/together.h"
#include "app/train/train.h"
#include "data/store/runs/run_request.h"
#include "engine/machine/clock.h"

namespace wide {

/// Prints progress on standard output, or on standard error if `--log -` writes rows to the former.
void print_progress(const TrainOptions& options, const std::string& text);

/// Prints, logs, stores and saves the events of a loop.
class Recorder {
 public:
  Recorder(const Prepared& run, Trainer& trainer, TrainState& state, const RunFolder& folder,
           RowLog& log, const TrainSinks& sinks, const Together* together = nullptr);

  /// Over ranks, all of them come here after the same step. Rank 0 logs and prints all models.
  void evaluated(const Evaluated& own);
  void happened(const Event& event);
  /// Between two steps; `evaluated`: right after an evaluation. Saves if enough time has passed.
  void stepped(bool evaluated);
  /// After an evaluation: requests of other processes to this run. May wait for them.
  std::vector<RunRequest> asked();
  void refused(const RunRequest& request, const std::string& why);
  /// Saves now, however short ago the last save was.
  void save();

 private:
  bool is_due() const;
  TrainState of_all_models(const Evaluated& row) const;
  std::vector<RunRequest> asked_in_store();
  void store_rows(const TrainState& of_all);
  void save_together();

  const Prepared& run_;
  Trainer& trainer_;
  TrainState& state_;
  const RunFolder& folder_;
  RowLog& log_;
  const Together* together_;  // nullptr: all models are here
  bool quiet_, store_, waits_;
  bool due_ = false;                                      // the ranks save after this evaluation
  std::vector<std::pair<int64_t, std::string>> refused_;  // requests, reasons; not yet in the store
  size_t stored_rows_ = 0, stored_events_ = 0;
  int64_t first_step_ = 0;
  double begun_s_ = now_s(), saved_s_ = now_s();  // times of the clock
  double save_s_ = 0;                             // how long the last save took
};

}  // namespace wide
