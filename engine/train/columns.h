#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// A column checked and prepared for a step: contiguous, with the sizes of one model's batch.
class BatchColumn {
 public:
  /// `dtype`: of the converted rows. Throws Error if the column does not fit `n` models.
  BatchColumn(std::string name, Column column, at::ScalarType dtype, int64_t n);

  bool present() const { return column_.values.defined(); }
  /// Whether all models share one batch.
  bool shared() const { return shared_; }
  /// Lets every model gather a batch of its own, even of the same rows.
  void never_share() { shared_ = false; }
  const Sizes& sizes() const { return sizes_; }  // [B, ...]
  at::ScalarType dtype() const { return dtype_; }
  const std::string& name() const { return name_; }
  const Column& column() const { return column_; }

  /// Address of a model's batch if it can be read in place; null if it must be gathered first.
  const void* in_place(int64_t model) const;
  /// Distance in bytes of two models' batches `in_place`.
  int64_t stride_bytes() const;
  /// Gathers a model's batch into `into`, contiguous; model -1 for a shared batch.
  void take(int64_t model, const Tensor& into) const;

 private:
  std::string name_;
  Column column_;
  at::ScalarType dtype_;
  bool shared_ = false;
  Sizes sizes_;
};

}  // namespace wide
