#include "app/fuse/unstack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "data/bytes/new_file.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

namespace fs = std::filesystem;

std::string unstacked_name(int64_t model, int64_t n) {
  const size_t width = fmt::format("{}", n - 1).size();
  return fmt::format("model-{:0{}}.safetensors", model, width);
}

void check_unstack_folder(const std::string& folder) {
  places().folder(folder);
  std::error_code error;
  if (!fs::is_directory(folder, error) || ::access(folder.c_str(), W_OK))
    throw Error(
        fmt::format("[{}] --unstack: got {}, expected a folder to write checkpoints to; "
                    "try another path",
                    printable(folder), fs::exists(folder, error) ? "something else" : "no folder"),
        1);
}

std::string unstack(const Subject& subject, int64_t n, const std::string& folder) {
  const Network& network = subject.network();
  const Ensemble ensemble = subject.ensemble(n);
  const auto weights = network.indices(false);
  const std::vector<bool>& given = subject.loaded().given;
  for (int64_t i = 0; i < n; ++i) {
    const Tensors own = ensemble.model(i);
    std::map<std::string, Tensor> named;
    for (size_t k = 0; k < weights.size(); ++k)
      if (given.empty() || given[k]) named[network.tensors[weights[k]].name] = own[weights[k]];
    // Tied weights are one tensor; a state_dict has it under each of its names.
    for (const auto& [alias, name] : network.aliases)
      if (const auto tied = named.find(name); tied != named.end()) named[alias] = tied->second;
    save_tensors((fs::path(folder) / unstacked_name(i, n)).string(), {named.begin(), named.end()});
  }
  return fmt::format("{} written to {}: weights as they were given, not as a call updates them",
                     n == 1 ? "1 checkpoint" : fmt::format("{} checkpoints", n), printable(folder));
}

}  // namespace wide
