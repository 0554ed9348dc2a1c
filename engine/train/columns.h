#pragma once
#include "engine/train/trainer.h"

namespace wide {

/// A column as a step reads it: checked, contiguous, with the sizes of one model's batch.
class BatchColumn {
 public:
  /// `dtype`: what rows are converted to. Throws Error where the column is none for `n` models.
  BatchColumn(std::string name, Column column, at::ScalarType dtype, int64_t n);

  bool present() const { return column_.values.defined(); }
  /// One batch is for all models.
  bool shared() const { return shared_; }
  const Sizes& sizes() const { return sizes_; }  // [B, ...]
  at::ScalarType dtype() const { return dtype_; }
  const std::string& name() const { return name_; }
  const Column& column() const { return column_; }

  /// Where model `model`'s batch lies as it is needed; null where it has to be taken first.
  const void* in_place(int64_t model) const;
  /// Bytes between two models' batches `in_place`.
  int64_t stride_bytes() const;
  /// Takes a model's batch into `into`, contiguous; -1 where one is for all.
  void take(int64_t model, const Tensor& into) const;

 private:
  std::string name_;
  Column column_;
  at::ScalarType dtype_;
  bool shared_ = false;
  Sizes sizes_;
};

}  // namespace wide
