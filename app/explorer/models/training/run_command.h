#pragma once
#include <string>
#include <utility>
#include <vector>

namespace wide {

/// What is to be different in another run, as options of its command: "--lr" to "1e-3,1e-2".
using ChangedOptions = std::vector<std::pair<std::string, std::string>>;

/// `command`, a line that a shell reads, with these options changed where it has them and added
/// where it has not. What is empty stays as it is. It goes on with no earlier run.
std::string changed_command(const std::string& command, const ChangedOptions& changes);

/// The value that the command gives an option; "" where it has none.
std::string option_value(const std::string& command, const std::string& option);

/// Copies the best checkpoint of each of these models, of all where there are none, from a run's
/// folder into `folder`, which is made. Returns how many. Throws Error (one line) where the run's
/// folder has none, or the files cannot be written.
size_t copy_best_checkpoints(const std::string& run_folder, const std::vector<int64_t>& models,
                             const std::string& folder);

}  // namespace wide
