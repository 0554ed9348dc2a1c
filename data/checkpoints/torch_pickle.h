#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/bytes/pickle.h"
#include "data/checkpoints/checkpoint_format.h"

// The names that a pickle of torch.save may hold, and what they make: storages and views of them.
namespace wide::torch_pickle {

/// A run of elements in a file's storage of the same key.
struct Storage {
  std::string key;
  std::string dtype;               // of safetensors; "U8" for one without
  uint64_t offset = 0, numel = 0;  // elements of `dtype`; a part of the stored ones for a view
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

  /// Every tensor in the containers under `root`, named by the keys on the way to it. `places`:
  /// bytes of each storage in the file, by key. Throws Error for a tensor beyond its storage, and
  /// where there is no tensor at all.
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
