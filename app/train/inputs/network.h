#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/train/inputs/data.h"
#include "data/networks/network_format.h"
#include "engine/model/dynamic_batch.h"
#include "engine/network.h"
#include "engine/train/trainer.h"
#include "engine/widen/target.h"

namespace wide {

/// Rows that are computed at once: `size` of them from `begin` on.
struct RowBatch {
  int64_t begin = 0, size = 0;
};

/// All rows in as few batches of at most `most` as possible, of nearly equal sizes.
std::vector<RowBatch> even_batches(int64_t rows, int64_t most);

/// Removes the other outputs of `program` and all that only they need. Returns by bound value
/// whether anything still reads it.
std::vector<bool> keep_outputs(Program* program, const std::vector<size_t>& outputs);

/// The network that is trained, from a file or a registered name, in its forms for training and
/// evaluation.
class TrainNetwork {
 public:
  /// Throws Error, also for a file of which one form cannot be made from the other.
  explicit TrainNetwork(const TrainOptions& options);

  /// Forward's arguments. Sizes are those of one batch, if the network states them.
  const std::vector<TensorSpec>& asked() const { return asked_; }
  bool knows_sizes() const { return knows_sizes_; }
  at::ScalarType dtype() const { return dtype_; }

  /// Chooses the batch size, once the data are known. `rows`: size of the smallest training set.
  void settle(const DataParts& data, int64_t rows, bool drop_last);

  int64_t batch() const { return batch_; }
  bool any_batch() const { return any_batch_; }
  /// Whether batches of this size can be run.
  bool takes(int64_t batch) const;
  /// How many of `rows` an evaluation or prediction computes at once: many small ones, fewer large
  /// ones, at least `batch()` where there are as many.
  int64_t evaluation_batch(const std::vector<DataPart>& inputs, int64_t rows) const;
  /// The sizes of batches that the evaluation form takes; nullopt: `batch()` alone.
  std::optional<BatchRange> eval_batches() const;
  std::vector<TensorSpec> inputs(int64_t batch) const;
  /// For batches of `batch()` rows. `initial` values are the file's own; a registered network has
  /// none.
  const Network& train_form() const { return train_; }
  const Network& eval_form() const { return eval_; }
  Network eval_form(int64_t batch) const { return eval_source_(inputs(batch)); }
  /// Tensors to run one of the forms on: rows of zeros, the network's own values where it has some,
  /// and drawn ones where it has none.
  Tensors on_zeros(const Network& form) const;
  /// Whether answers for a row depend on the other rows of its batch, as in a batch norm without
  /// running statistics: whether those for the first row change where all rows are equal to it.
  /// `rows`: forward's arguments; `outputs`: those of its outputs that are compared, all if empty.
  bool rows_affect_each_other(const Network& form, const Tensors& rows,
                              const std::set<size_t>& outputs = {}) const;
  /// Records one of the forms, run on `on_zeros`.
  Program recorded(const Network& form) const;
  /// By output of the evaluation form, the names of forward's arguments that it is computed from.
  /// Sizes must be known.
  std::vector<std::set<std::string>> read_inputs() const;
  std::vector<TensorSpec> tensors() const;
  Forms forms() const;
  std::vector<InputForm> input_forms() const;
  /// Forward's arguments for one model's rows of a batch.
  Tensors own_inputs(const Batch& batch, int64_t model) const;

  /// Names of forward's results, flattened; empty if the network does not name them.
  std::vector<std::string> output_names() const;
  /// The same of the evaluation form, which may be another file.
  std::vector<std::string> held_output_names() const;
  bool has_eval_file() const { return eval_file_ != nullptr; }

  bool registered() const { return target_ != nullptr; }
  /// Whether the training form calls dropout; true for every registered network.
  bool has_dropout() const;
  int64_t switched_dropout() const { return switched_dropout_; }
  int64_t switched_batch_norm() const { return switched_batch_norm_; }
  /// Which calls were switched for which form, as text; "" if none were.
  std::string switched_text() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  [[noreturn]] void refuse_batch(int64_t wanted, int64_t nearest, int64_t exported) const;
  void choose_forms(const TrainOptions& options);
  void read_evaluation_form();

  std::string name_;
  const Target* target_ = nullptr;
  std::shared_ptr<const NetworkFile> file_, eval_file_;
  Form train_as_ = Form::as_exported, eval_as_ = Form::as_exported;
  FormFlags flags_;
  std::vector<TensorSpec> asked_;
  bool knows_sizes_ = false, any_batch_ = true;
  int64_t asked_batch_ = 0, batch_ = 0;
  int64_t row_outputs_ = 0;  // numbers that the evaluation form returns for a row
  at::ScalarType dtype_ = at::kFloat;
  NetworkSource train_source_, eval_source_;
  Network train_, eval_;
  int64_t switched_dropout_ = 0, switched_batch_norm_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace wide
