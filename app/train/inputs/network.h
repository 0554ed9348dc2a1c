#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/train/inputs/data.h"
#include "data/networks/network_format.h"
#include "engine/model/dynamic_batch.h"
#include "engine/network.h"
#include "engine/train/trainer.h"
#include "engine/widen/target.h"

namespace wide {

/// The network that is trained: a file or a registered name, in both its forms.
class TrainNetwork {
 public:
  /// Throws Error, also for a file whose forms cannot be told apart.
  explicit TrainNetwork(const TrainOptions& options);

  /// Forward's arguments. Sizes are of one batch where the network says them.
  const std::vector<TensorSpec>& asked() const { return asked_; }
  bool knows_sizes() const { return knows_sizes_; }
  at::ScalarType dtype() const { return dtype_; }

  /// Chooses the batch size once the data's sizes are known. `rows`: of the smallest training set.
  void settle(const DataParts& data, int64_t rows, bool drop_last);

  int64_t batch() const { return batch_; }
  bool any_batch() const { return any_batch_; }
  /// Whether batches of this size can be run.
  bool takes(int64_t batch) const;
  /// The sizes of batches that the evaluation form takes; nullopt: `batch()` alone.
  std::optional<BatchRange> eval_batches() const;
  std::vector<TensorSpec> inputs(int64_t batch) const;
  /// At `batch()`; its `initial` are the file's own values, or none of a registered name.
  const Network& train_form() const { return train_; }
  const Network& eval_form() const { return eval_; }
  Network eval_form(int64_t batch) const { return eval_source_(inputs(batch)); }
  /// One of its forms recorded, with weights of zeros.
  Program recorded(const Network& form) const;
  std::vector<TensorSpec> tensors() const;
  Forms forms() const;
  std::vector<InputForm> input_forms() const;

  /// Of forward's results, flattened; empty where NET does not name them.
  std::vector<std::string> output_names() const;

  bool registered() const { return target_ != nullptr; }
  /// Whether the training form may call dropout; what is registered is not asked.
  bool has_dropout() const;
  int64_t switched_dropout() const { return switched_dropout_; }
  int64_t switched_batch_norm() const { return switched_batch_norm_; }
  /// What was switched, for which form, in words; "" for nothing.
  std::string switched_text() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  int64_t nearest_batch(int64_t exported, int64_t refused) const;
  [[noreturn]] void refuse_batch(int64_t wanted, int64_t nearest, int64_t exported) const;
  void choose_forms(const TrainOptions& options);
  void check_evaluation_form() const;

  std::string name_;
  const Target* target_ = nullptr;
  std::shared_ptr<const NetworkFile> file_, eval_file_;
  Form train_as_ = Form::as_exported, eval_as_ = Form::as_exported;
  FormFlags flags_;
  std::vector<TensorSpec> asked_;
  bool knows_sizes_ = false, any_batch_ = true;
  int64_t asked_batch_ = 0, batch_ = 0;
  at::ScalarType dtype_ = at::kFloat;
  NetworkSource train_source_, eval_source_;
  Network train_, eval_;
  int64_t switched_dropout_ = 0, switched_batch_norm_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace wide
