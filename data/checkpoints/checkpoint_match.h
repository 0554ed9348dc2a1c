#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/checkpoints/checkpoint_file.h"
#include "engine/network.h"

namespace wide {

/// The network's weights, by all names that a checkpoint may use for them.
class WantedWeights {
 public:
  explicit WantedWeights(const Network& network);

  const Network& network() const { return network_; }
  const std::vector<TensorSpec>& specs() const { return specs_; }
  /// Index in `specs`, or -1.
  int64_t find(const std::string& name) const;
  /// Prefixes that all names have in common: "", "model.", "model.net.".
  const std::vector<std::string>& prefixes() const { return prefixes_; }

 private:
  const Network& network_;
  std::vector<TensorSpec> specs_;
  std::map<std::string, size_t> index_;
  std::vector<std::string> prefixes_;
};

constexpr size_t kAbsent = SIZE_MAX;

/// The assignment of a checkpoint's tensors to the network's weights.
struct CheckpointMatch {
  std::vector<size_t> tensors;  // by weight: index of the file's tensor, or kAbsent
  std::vector<std::string> notes;
};

/// Matches names, after removing a prefix that only the file has (containers such as `state_dict`,
/// wrappers such as `module.`) or only the network. Throws Error naming the file and the tensor if
/// sizes or dtypes differ, if tied weights have different values, and for a missing weight that the
/// network needs.
CheckpointMatch match_checkpoint(const CheckpointFile& file, const WantedWeights& wanted);

}  // namespace wide
