#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "data/bytes/mapped_file.h"
#include "data/checkpoints/checkpoint_format.h"

namespace wide {

/// A checkpoint of one model in any format, mapped into memory, so that bytes are read only when
/// they are used. A sharded checkpoint opens all its files.
class CheckpointFile {
 public:
  /// Throws Error naming the file.
  explicit CheckpointFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// The dtype of a tensor. Throws Error (naming file and tensor) for one that LibTorch lacks.
  at::ScalarType dtype(size_t index) const;
  /// A tensor over the file's own memory (which it keeps alive) if alignment and byte order allow,
  /// else a copy.
  at::Tensor tensor(size_t index) const;
  /// The bytes of a tensor, if they are contiguous in the order of its elements; else nullptr.
  const char* plain_bytes(size_t index) const;
  /// Whether two names are of one tensor at the same place in a file.
  bool same_place(size_t a, size_t b) const;
  int64_t bytes() const;  // of all files

 private:
  void add(const std::shared_ptr<const MappedFile>& file, CheckpointIndex index);

  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::shared_ptr<const MappedFile>> files_, file_of_;  // of all files; of each tensor
};

}  // namespace wide
