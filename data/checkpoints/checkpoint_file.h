#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "data/bytes/mapped_file.h"
#include "data/checkpoints/checkpoint_format.h"

namespace wide {

/// The weights of one model, in whatever format, mapped into memory: the bytes are read where they
/// are used. A sharded checkpoint opens all its files.
class CheckpointFile {
 public:
  /// Throws Error naming the file.
  explicit CheckpointFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Of a tensor: throws Error (naming file and tensor) for those that LibTorch does not have.
  at::ScalarType dtype(size_t index) const;
  /// A tensor over the file's own memory (which it keeps alive) where alignment and byte order
  /// allow, else a copy.
  at::Tensor tensor(size_t index) const;
  /// The bytes of a tensor, where they are in the order of its elements in memory; else nullptr.
  const char* plain_bytes(size_t index) const;
  /// Where the tensor lies: equal for two names of one.
  bool same_place(size_t a, size_t b) const;
  int64_t bytes() const;  // of all files

 private:
  void add(const std::shared_ptr<const MappedFile>& file, CheckpointIndex index);

  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::shared_ptr<const MappedFile>> files_, file_of_;  // the latter per tensor
};

}  // namespace wide
