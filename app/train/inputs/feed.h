#pragma once
#include "app/train/inputs/augment.h"
#include "app/train/inputs/data.h"
#include "app/train/inputs/network.h"
#include "app/train/metrics/metric.h"

namespace wide {

/// Rows to evaluate, a list for each fold; one list if there are no folds.
struct RowSet {
  const DataParts* parts = nullptr;
  const std::vector<Rows>* rows = nullptr;
};

/// A batch of a row set, with the same number of rows for all models. A model with fewer rows, or
/// none, gets rows that only fill up (`present` is 0).
struct HeldBatch {
  Batch batch;
  Tensor rows;     // int64 [B], or [N, B]
  Tensor present;  // float64, like rows; 0: the row only fills up
  int64_t first = 0;
};

/// Makes the batch of each step. A batch depends on the step's number alone, not on earlier steps.
class Feed {
 public:
  Feed(const TrainOptions& options, const TrainingData& data, const TrainNetwork& network,
       const Loss& loss, const std::vector<ModelSettings>& models, uint64_t first_order);

  int64_t rows() const { return rows_; }  // of an epoch; where models have their own: the longest
  int64_t steps_per_epoch() const { return steps_of(rows_); }
  int64_t rows_of(int64_t model) const { return rows_of_[static_cast<size_t>(model)]; }
  int64_t steps_per_epoch(int64_t model) const { return steps_of(rows_of(model)); }
  /// Steps of an epoch of so many rows.
  int64_t steps_of(int64_t rows) const;
  /// Whether training batches are filled up with rows of weight 0, since models have different
  /// numbers of rows.
  bool fills_up_training() const { return mixed_ && !drop_; }
  int64_t left_out() const { return left_out_; }  // rows of each epoch, if the batch size is fixed
  /// The batch of step `step` of the run, counted from 0.
  Batch training(int64_t step);

  /// For networks whose answers rows that fill up would change (one number for a batch, or rows
  /// that affect each other): from now on `held` gives batches without such rows. Throws Error if
  /// the network cannot take the batch sizes that `sets` then need; `why` begins the message.
  void never_fill_up(const std::string& why, const std::vector<RowSet>& sets);
  int64_t held_batches(const RowSet& set) const;
  HeldBatch held(const RowSet& set, int64_t index) const;
  /// Adds the batch's targets and weights for `models` to what metrics read.
  void add_targets(const RowSet& set, const HeldBatch& held, const std::vector<int64_t>& models,
                   AnsweredRows* answers) const;
  int64_t fold_of(int64_t model) const {
    return std::max<int64_t>(0, models_[static_cast<size_t>(model)].fold);
  }

 private:
  bool same_rows() const { return same_order_ && data_.folds == 0 && !data_.by_model; }
  void count_rows();
  const Rows& rows_to_learn(int64_t model) const;
  /// A model's rows, in the order of its own epoch `epoch`.
  const Rows& own_order(int64_t model, int64_t epoch);
  Batch own_training(int64_t step);
  void begin_epoch(int64_t epoch);
  /// Reads the file of an epoch (--epoch-data). Throws Error if its columns or sizes differ from
  /// those of the training data.
  DataParts read_rows(int64_t epoch) const;
  Rows order_of(int64_t model, int64_t epoch) const;
  /// `step`: the training step, by which images are augmented; -1: no augmentation.
  Batch make_batch(const DataParts& parts, const Tensor& rows, int64_t step = -1) const;
  Column column(const DataPart& part, const Tensor& rows, int64_t step = -1) const;
  /// Rows [begin, begin + size) of each fold or model; if `of` >= 0, only of those with `of` rows.
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
  std::vector<int64_t> group_;  // index of each model in the statistics of normalisation
  Augmentation augmentation_;
  uint64_t first_order_;  // the order's seed for all models under --same-order
  bool same_order_ = false, fills_up_ = true;
  bool mixed_ = false, drop_ = false;
  int64_t rows_ = 0, left_out_ = 0, epoch_ = -1;
  std::vector<int64_t> rows_of_;                      // by model
  Tensor order_;                                      // int64 [N, rows], or [rows]
  std::vector<std::pair<int64_t, Rows>> own_orders_;  // by model: an epoch, and its order
};

}  // namespace wide
