#include "app/fuse/policy.h"

#include <filesystem>

#include "data/checkpoints/checkpoint_search.h"
#include "data/machine/peaks.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

/// The folder whose names a search for checkpoints lists: the folder given, or the part of a
/// pattern before its first wildcard.
std::string searched(const std::string& argument) {
  std::error_code error;
  if (fs::is_directory(argument, error)) return argument;
  return folder_of(argument.substr(0, argument.find_first_of("*?["))).string();
}

/// Adds the shards of a checkpoint's index, which lie beside it.
void add_beside(const std::string& index, std::vector<std::string>* files) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_of(index), error))
    if (entry.is_regular_file(error)) files->push_back(entry.path().string());
}

}  // namespace

std::optional<SandboxPolicy> policy_of(const SubjectOptions& options) {
  std::error_code error;
  const bool file = fs::exists(options.model, error);
  if (!file && options.weights.empty() && options.inputs.empty()) return std::nullopt;
  SandboxPolicy policy;
  policy.what = options.model;
  policy.device = options.device != "cpu";
  if (file) policy.read.push_back(options.model);
  if (!options.inputs.empty()) policy.read.push_back(options.inputs);
  for (const std::string& argument : options.weights) {
    if (!fs::is_regular_file(argument, error)) policy.list.push_back(searched(argument));
    try {
      for (const std::string& found : find_checkpoints({argument}).files) {
        policy.read.push_back(found);
        if (found.ends_with(".json")) add_beside(found, &policy.read);
      }
    } catch (const Error&) {
      continue;  // loading them later reports the error
    }
  }
  if (!cache_folder().empty()) {
    policy.read.push_back(peaks_file());
    policy.write.push_back(peaks_file());
    policy.folders.push_back(cache_folder());
  }
  return policy;
}

}  // namespace wide
