#pragma once
#include "app/train/inputs/augment.h"
#include "app/train/inputs/data.h"
#include "app/train/inputs/network.h"
#include "app/train/metrics/metric.h"

namespace wide {

/// Rows that models are to answer, by fold; one list where there are none.
struct RowSet {
  const DataParts* parts = nullptr;
  const std::vector<Rows>* rows = nullptr;
};

/// A part of a row set, the same number of rows for all models; what is short is filled up, and so
/// is a model that has no row here.
struct HeldBatch {
  Batch batch;
  Tensor rows;     // int64 [B], or [N, B]
  Tensor present;  // float64 like rows; 0: only there to fill up
  int64_t first = 0;
};

/// What each model sees at each step: nothing of it depends on what came before.
class Feed {
 public:
  Feed(const TrainOptions& options, const TrainingData& data, const TrainNetwork& network,
       const Loss& loss, const std::vector<ModelSettings>& models, uint64_t first_order);

  int64_t rows() const { return rows_; }  // of an epoch; where models have their own: the longest
  int64_t steps_per_epoch() const { return steps_of(rows_); }
  int64_t rows_of(int64_t model) const { return rows_of_[static_cast<size_t>(model)]; }
  int64_t steps_per_epoch(int64_t model) const { return steps_of(rows_of(model)); }
  /// Of an epoch of so many rows.
  int64_t steps_of(int64_t rows) const;
  /// Whether models have different numbers of rows: what their batches are short of is filled up
  /// with rows of weight 0.
  bool fills_up_training() const { return mixed_ && !drop_; }
  int64_t left_out() const { return left_out_; }  // rows of each epoch, as the batch is fixed
  /// Step `step` of the run, counted from 0.
  Batch training(int64_t step);

  /// Of a network that gives one number for a batch, rows that only fill it up would count: from
  /// here on parts of their real sizes alone. Throws Error where the network takes no such part of
  /// one of `sets`; `what`: whose number it is.
  void never_fill_up(const std::string& what, const std::vector<RowSet>& sets);
  int64_t held_batches(const RowSet& set) const;
  HeldBatch held(const RowSet& set, int64_t index) const;
  /// Targets and weights of the batch for `models`, as metrics take them.
  void add_targets(const RowSet& set, const HeldBatch& held, const std::vector<int64_t>& models,
                   AnsweredRows* answers) const;
  int64_t fold_of(int64_t model) const {
    return std::max<int64_t>(0, models_[static_cast<size_t>(model)].fold);
  }

 private:
  bool same_rows() const { return same_order_ && data_.folds == 0 && !data_.by_model; }
  void count_rows();
  const Rows& rows_to_learn(int64_t model) const;
  /// Of a model in the order of its own epoch.
  const Rows& own_order(int64_t model, int64_t epoch);
  Batch own_training(int64_t step);
  void begin_epoch(int64_t epoch);
  /// The rows of an epoch, where each has its own. Throws Error where they are no others of the
  /// training data.
  DataParts read_rows(int64_t epoch) const;
  Rows order_of(int64_t model, int64_t epoch) const;
  /// `step`: of training, whose images are augmented; -1: none.
  Batch make_batch(const DataParts& parts, const Tensor& rows, int64_t step = -1) const;
  Column column(const DataPart& part, const Tensor& rows, int64_t step = -1) const;
  int64_t held_size(const RowSet& set) const;
  /// Rows [begin, begin + size) of all models, or of those with `of` rows.
  struct HeldPart {
    int64_t begin = 0, size = 0, of = -1;
  };
  std::vector<HeldPart> held_parts(const RowSet& set) const;

  const TrainOptions& options_;
  const TrainingData& data_;
  const TrainNetwork& network_;
  const Loss& loss_;
  const std::vector<ModelSettings>& models_;
  std::optional<DataParts> of_epoch_;
  std::vector<int64_t> group_;  // of each model in the statistics of normalisation
  Augmentation augmentation_;
  uint64_t first_order_;  // the seed of all under --same-order
  bool same_order_ = false, fills_up_ = true;
  bool mixed_ = false, drop_ = false;
  int64_t rows_ = 0, left_out_ = 0, epoch_ = -1;
  std::vector<int64_t> rows_of_;                      // by model
  Tensor order_;                                      // int64 [N, rows], or [rows]
  std::vector<std::pair<int64_t, Rows>> own_orders_;  // by model: an epoch of its own
};

}  // namespace wide
