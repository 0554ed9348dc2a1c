#pragma once
#include "app/train/inputs/feed.h"
#include "app/train/inputs/fingerprint.h"
#include "app/train/metrics/loss_text.h"
#include "app/train/models/start.h"

namespace wide {

/// `--prune FACTOR,GRACE`, successive halving: at the evaluations GRACE, GRACE·FACTOR,
/// GRACE·FACTOR², ... the best 1/FACTOR of the models go on.
struct Halving {
  int64_t factor = 0, grace = 0;  // 0: none is pruned
};

/// Everything that a run consists of, read from the options and checked before the first step.
struct Prepared {
  explicit Prepared(const TrainOptions& asked);

  TrainOptions options;
  LossText loss;
  TrainNetwork network;
  TrainingData data;
  Configurations configurations;
  std::vector<ModelSettings>
      everyone;             // models of all parts; without --part equal to `configurations`
  int64_t first_model = 0;  // index of this part's first model in `everyone`
  std::unique_ptr<Feed> feed;
  std::set<std::string> frozen, no_decay;
  std::vector<WantedMetric> metrics;  // the first is monitored
  bool answers_rows = true;           // forward's output has a row for each row of the batch
  int64_t steps = 0;                  // of the whole run
  std::vector<int64_t> ends;          // by model: its number of steps
  std::vector<int64_t> ends_of_all;   // those of `everyone`
  int64_t eval_every = 0;
  Halving halving;
  std::string fingerprint;  // of the data
  NetworkFingerprint network_fingerprint;
  std::string identity;  // digests of all else that a resume requires unchanged
  std::vector<std::string> notes;
  std::map<std::string, std::string> defaults;  // options that were not given, and their values

  int64_t n() const { return static_cast<int64_t>(configurations.models.size()); }
  const WantedMetric& monitor() const { return metrics.front(); }
  RowSet validation() const { return {&data.validation_parts(), &data.validation}; }
  Trainer trainer(const Start& start, const std::string& plan_text) const;

 private:
  void choose_loss();
  void check_settings();
  void check_data();
  void take_part();
  void check_outputs();
  void check_output_of_loss(size_t count);
  void shape_single_column();
  void check_classes();
  void check_batch_numbers(const Tensors& outputs);
  void check_smallest_batch() const;
  void check_filled_batches() const;
  void check_filled_evaluations();
  std::vector<RowSet> held_sets() const;  // all rows to evaluate
  void choose_metrics();
  void count_steps();
};

}  // namespace wide
