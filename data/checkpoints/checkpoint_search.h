#pragma once
#include <string>
#include <vector>

namespace wide {

/// The checkpoints that `--weights` names, one for each model.
struct FoundCheckpoints {
  std::vector<std::string> files;  // for a sharded checkpoint its index
  std::vector<std::string> notes;  // the files that a folder or glob matched
};

/// Expands folders and globs to checkpoints, sorted so that model 10 comes after model 9. A folder
/// with the index of a sharded checkpoint is one model. Throws Error for a path that does not exist
/// or holds no checkpoint.
FoundCheckpoints find_checkpoints(const std::vector<std::string>& arguments);

}  // namespace wide
