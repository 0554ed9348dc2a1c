#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/checkpoints/checkpoint_file.h"
#include "engine/network.h"

namespace wide {

/// The weights that a network wants, by every name that a checkpoint may have for them.
class WantedWeights {
 public:
  explicit WantedWeights(const Network& network);

  const Network& network() const { return network_; }
  const std::vector<TensorSpec>& specs() const { return specs_; }
  /// Index in `specs`, or -1.
  int64_t find(const std::string& name) const;
  /// Parts, with their dots, that all names begin with: "", "model.", "model.net.".
  const std::vector<std::string>& prefixes() const { return prefixes_; }

 private:
  const Network& network_;
  std::vector<TensorSpec> specs_;
  std::map<std::string, size_t> index_;
  std::vector<std::string> prefixes_;
};

constexpr size_t kAbsent = SIZE_MAX;

/// Which tensor of a checkpoint is which weight.
struct CheckpointMatch {
  std::vector<size_t> tensors;  // per weight the tensor in the file, or kAbsent: the network's own
  std::vector<std::string> notes;
};

/// Finds what stands before the names in the file but not in the network (containers such as
/// `state_dict`, wrappers such as `module.`), or the other way round. Throws Error naming the file
/// and the tensor where sizes or dtypes differ, where tied weights do, and for a weight that is not
/// there and that the network cannot do without.
CheckpointMatch match_checkpoint(const CheckpointFile& file, const WantedWeights& wanted);

}  // namespace wide
