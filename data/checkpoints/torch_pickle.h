#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/bytes/pickle.h"
#include "data/checkpoints/checkpoint_format.h"

// The names that a pickle of torch.save may contain, and what they build: storages and tensors on
// them.
namespace wide::torch_pickle {

/// A range of elements of a storage, which is found in the file by its key.
struct Storage {
  std::string key;
  std::string dtype;               // safetensors' name; "U8" for an untyped storage
  uint64_t offset = 0, numel = 0;  // in elements of `dtype`; a view covers a part of the storage
};

struct View {
  size_t storage = 0;
  std::string dtype;
  uint64_t offset = 0;  // elements
  std::vector<int64_t> sizes, strides;
};

class Meaning : public pickle::Meaning {
 public:
  bool knows(std::string_view name) const override;
  pickle::Id call(pickle::Values& values, std::string_view name, pickle::Id arguments) override;
  pickle::Id persistent(pickle::Values& values, pickle::Id id) override;

  const std::vector<Storage>& storages() const { return storages_; }

  /// All tensors in the containers under `root`, named by the path of keys. `places`: byte range of
  /// each storage, by key. Throws Error for a tensor that exceeds its storage, and if there is no
  /// tensor.
  std::vector<StoredTensor> tensors(const pickle::Values& values, pickle::Id root,
                                    const std::map<std::string, ByteRange>& places,
                                    bool big_endian) const;

 private:
  StoredTensor locate(const std::string& file, const std::string& name, const View& view,
                      const ByteRange& place) const;

  std::vector<Storage> storages_;
  std::vector<View> views_;
  size_t asked_sizes_ = 0, copied_items_ = 0;
};

}  // namespace wide::torch_pickle
