#pragma once
#include <string>
#include <vector>

namespace wide {

/// The checkpoints behind `--weights`, one a model.
struct FoundCheckpoints {
  std::vector<std::string> files;  // of a sharded checkpoint its index
  std::vector<std::string> notes;  // what a folder or a glob stood for
};

/// A folder or a glob stands for its checkpoints, numbers in their names in the order of numbers; a
/// folder with a sharded checkpoint's index for that one model. Throws Error for what does not
/// exist or holds none.
FoundCheckpoints find_checkpoints(const std::vector<std::string>& arguments);

}  // namespace wide
